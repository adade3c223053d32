//! A real window on a real X server without a screen (Xvfb), and what an X client sees in it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]
#![cfg(all(feature = "window", target_os = "linux"))]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dala_compute::{Buffer, DType, Device};
use dala_surface::Surface;
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    AtomEnum, ClientMessageEvent, ConfigureWindowAux, ConnectionExt, EventMask, ImageFormat, Window,
};
use x11rb::rust_connection::RustConnection;

const WIDTH: usize = 320;
const HEIGHT: usize = 240;

/// Starts an X server and says its name. It ends when the last client is gone, as this process is one; killed earlier, it
/// would take this process with it.
#[allow(clippy::zombie_processes, reason = "it outlives this process by a moment")]
fn start_server() -> String {
    let mut server = Command::new("Xvfb")
        .args(["-displayfd", "1", "-screen", "0", "1024x768x24", "-nolisten", "tcp", "-terminate"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("Xvfb is needed: scripts/setup-debian.sh installs it");
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    format!(":{}", line.trim())
}

/// The window with this title.
fn find(x: &RustConnection, title: &str) -> Window {
    let root = x.setup().roots[0].root;
    let children = x.query_tree(root).unwrap().reply().unwrap().children;
    let called = |window: &&Window| {
        let name = x.get_property(false, **window, AtomEnum::WM_NAME, AtomEnum::ANY, 0, 64).unwrap().reply();
        name.is_ok_and(|name| name.value == title.as_bytes())
    };
    *children.iter().find(called).unwrap_or_else(|| panic!("there is no window called {title}"))
}

/// What is on the screen where the window is, as red, green and blue.
fn screenshot(x: &RustConnection, window: Window) -> (usize, usize, Vec<[u8; 3]>) {
    let geometry = x.get_geometry(window).unwrap().reply().unwrap();
    let (width, height) = (geometry.width, geometry.height);
    let root = x.setup().roots[0].root;
    let at = x.translate_coordinates(window, root, 0, 0).unwrap().reply().unwrap();
    let image =
        x.get_image(ImageFormat::Z_PIXMAP, root, at.dst_x, at.dst_y, width, height, !0).unwrap().reply().unwrap();
    let pixels = image.data.chunks_exact(4).map(|pixel| [pixel[2], pixel[1], pixel[0]]).collect();
    (width.into(), height.into(), pixels)
}

/// Looks until it is so: the server shows things when it comes to it.
fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn windows_show_what_was_computed() {
    let display = start_server();
    // SAFETY: no other thread of this process reads or writes the environment now.
    unsafe { std::env::set_var("DISPLAY", &display) };
    let (x, _) = x11rb::connect(Some(&display)).unwrap();

    for name in ["vulkan", "gl", "cpu"] {
        let device = Device::open(name).unwrap();
        let title = format!("dala on {name}");
        let surface = Surface::window(&device, WIDTH as u32, HEIGHT as u32, &title).unwrap();
        let picture = Buffer::zeros(&device, DType::U8, [HEIGHT, WIDTH, 4]).unwrap();
        let before = device.stats().downloaded_bytes;
        let mut wanted = Vec::new();
        for frame in 0..5 {
            let pixels: Vec<u8> = (0..HEIGHT)
                .flat_map(|row| {
                    (0..WIDTH).flat_map(move |column| [column as u8, (row + frame * 9) as u8, frame as u8 * 50, 255])
                })
                .collect();
            wanted = pixels.chunks_exact(4).map(|p| [p[0], p[1], p[2]]).collect::<Vec<[u8; 3]>>();
            picture.write(&pixels).unwrap();
            surface.set_buffer(&picture).unwrap();
            surface.present().unwrap();
        }
        let read_back = device.stats().downloaded_bytes - before;
        println!("{title}: drawn by the device itself: {}, {read_back} bytes read back", surface.on_device());
        assert_eq!(surface.on_device(), name == "vulkan", "how {name} gets to the screen");
        assert_eq!(read_back == 0, surface.on_device());

        let window = find(&x, &title);
        eventually("the last frame is on the screen", || screenshot(&x, window) == (WIDTH, HEIGHT, wanted.clone()));

        // Twice as wide: the picture is in the middle, and black is beside it.
        x.configure_window(window, &ConfigureWindowAux::new().width(2 * WIDTH as u32)).unwrap();
        x.flush().unwrap();
        eventually("the picture is drawn again when the window changes", || {
            let (width, height, pixels) = screenshot(&x, window);
            let rows = pixels.chunks_exact(width).zip(wanted.chunks_exact(WIDTH));
            (width, height) == (2 * WIDTH, HEIGHT)
                && rows.into_iter().all(|(row, wanted)| {
                    let (left, middle, right) = (&row[..WIDTH / 2], &row[WIDTH / 2..][..WIDTH], &row[WIDTH / 2 * 3..]);
                    middle == wanted && left.iter().chain(right).all(|pixel| *pixel == [0, 0, 0])
                })
        });
        assert!(!surface.is_closed());

        // As people close windows.
        let atom = |name: &str| x.intern_atom(false, name.as_bytes()).unwrap().reply().unwrap().atom;
        let data = [atom("WM_DELETE_WINDOW"), 0, 0, 0, 0];
        let message = ClientMessageEvent::new(32, window, atom("WM_PROTOCOLS"), data);
        x.send_event(false, window, EventMask::NO_EVENT, message).unwrap();
        x.flush().unwrap();
        eventually("it is closed", || surface.is_closed());
        assert_eq!(surface.present().unwrap_err().code(), "surface_closed");
        // What it showed can still be had, and the device still works.
        assert_eq!(surface.snapshot().unwrap().rgba.len(), WIDTH * HEIGHT * 4);
        assert_eq!(picture.read::<u8>().unwrap().len(), WIDTH * HEIGHT * 4);
    }
}
