//! Windows, all on one thread: a process has one event loop.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use winit::application::ApplicationHandler;
use winit::dpi::PhysicalSize;
use winit::event::WindowEvent;
use winit::event_loop::{ActiveEventLoop, EventLoop, EventLoopProxy};
use winit::window::{Window as Native, WindowId};

use crate::SurfaceError;

/// How long opening a window may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A window. Dropping it closes it.
pub(crate) struct Window {
    native: Arc<Native>,
    state: Arc<State>,
    events: EventLoopProxy<Request>,
}

/// What the window's thread knows and everyone asks.
struct State {
    closed: AtomicBool,
    /// Width and height in one, so that they belong together.
    size: AtomicU64,
    /// What to do when the window has lost what it showed.
    redraw: Mutex<Option<Redraw>>,
}

type Redraw = Box<dyn Fn() + Send>;

/// A window and its state, as its thread and its owner hold them.
type Opened = (Arc<Native>, Arc<State>);

enum Request {
    Open { width: u32, height: u32, title: String, reply: Sender<Result<Opened, String>> },
    Close(WindowId),
}

impl Window {
    pub(crate) fn open(width: u32, height: u32, title: &str) -> Result<Window, SurfaceError> {
        let no_window = |reason: String| SurfaceError::NoWindow { reason };
        let events = event_loop().map_err(no_window)?;
        let (reply, answer) = channel();
        let gone = || no_window("the thread of the windows has ended".to_owned());
        events.send_event(Request::Open { width, height, title: title.to_owned(), reply }).map_err(|_| gone())?;
        let opened = answer.recv_timeout(TIMEOUT).map_err(|_| gone())?;
        let (native, state) = opened.map_err(no_window)?;
        Ok(Window { native, state, events })
    }

    pub(crate) fn handle(&self) -> Arc<Native> {
        self.native.clone()
    }

    /// Width and height of what can be drawn on, now.
    pub(crate) fn size(&self) -> (u32, u32) {
        let size = self.state.size.load(Ordering::Relaxed);
        ((size >> 32) as u32, size as u32)
    }

    pub(crate) fn resize(&self, width: u32, height: u32) {
        if let Some(size) = self.native.request_inner_size(PhysicalSize::new(width, height)) {
            self.state.set_size(size);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.closed.load(Ordering::Relaxed)
    }

    /// Says what to do when the window has lost what it showed. Called on the windows' thread.
    pub(crate) fn on_redraw(&self, redraw: impl Fn() + Send + 'static) {
        *self.state.redraw.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(redraw));
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // If the thread has ended, so have its windows.
        let _ = self.events.send_event(Request::Close(self.native.id()));
    }
}

impl State {
    fn set_size(&self, size: PhysicalSize<u32>) {
        self.size.store(u64::from(size.width) << 32 | u64::from(size.height), Ordering::Relaxed);
    }
}

/// The thread of all windows, started by the first. If that fails once it fails for ever: the system allows one attempt.
fn event_loop() -> Result<EventLoopProxy<Request>, String> {
    static STARTED: OnceLock<Result<EventLoopProxy<Request>, String>> = OnceLock::new();
    STARTED
        .get_or_init(|| {
            let (reply, started) = channel();
            let work = move || {
                // Where there is no display, some systems panic instead of saying so.
                let made =
                    std::panic::catch_unwind(build).unwrap_or_else(|_| Err("the windowing system failed".to_owned()));
                match made {
                    Ok(events) => {
                        let _ = reply.send(Ok(events.create_proxy()));
                        let _ = events.run_app(&mut Windows::default());
                    }
                    Err(reason) => drop(reply.send(Err(reason))),
                }
            };
            let thread = std::thread::Builder::new().name("dala-windows".to_owned()).spawn(work);
            thread.map_err(|error| error.to_string())?;
            started.recv_timeout(TIMEOUT).unwrap_or_else(|_| Err("the windowing system does not answer".to_owned()))
        })
        .clone()
}

#[cfg(any(
    target_os = "linux",
    target_os = "freebsd",
    target_os = "openbsd",
    target_os = "netbsd",
    target_os = "dragonfly"
))]
fn build() -> Result<EventLoop<Request>, String> {
    use winit::platform::x11::EventLoopBuilderExtX11;
    EventLoop::with_user_event().with_any_thread(true).build().map_err(words)
}

#[cfg(target_os = "windows")]
fn build() -> Result<EventLoop<Request>, String> {
    use winit::platform::windows::EventLoopBuilderExtWindows;
    EventLoop::with_user_event().with_any_thread(true).build().map_err(words)
}

#[cfg(not(any(
    target_os = "linux",
    target_os = "freebsd",
    target_os = "openbsd",
    target_os = "netbsd",
    target_os = "dragonfly",
    target_os = "windows"
)))]
fn build() -> Result<EventLoop<Request>, String> {
    Err("on this system only the main thread may open windows, and it belongs to the program".to_owned())
}

/// What is wrong, without the place in winit's source where it was noticed.
fn words(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    let reason =
        text.rsplit_once(".rs:").and_then(|(_, rest)| rest.split_once(": ")).map_or(&*text, |(_, reason)| reason);
    reason.trim_end_matches('.').to_owned()
}

/// The windows of this process.
#[derive(Default)]
struct Windows(HashMap<WindowId, Opened>);

impl ApplicationHandler<Request> for Windows {
    fn resumed(&mut self, _: &ActiveEventLoop) {}

    fn user_event(&mut self, events: &ActiveEventLoop, request: Request) {
        match request {
            Request::Open { width, height, title, reply } => {
                let wanted =
                    Native::default_attributes().with_title(title).with_inner_size(PhysicalSize::new(width, height));
                let opened = events.create_window(wanted).map_err(words).map(|native| {
                    let state =
                        State { closed: AtomicBool::new(false), size: AtomicU64::new(0), redraw: Mutex::new(None) };
                    state.set_size(native.inner_size());
                    let opened = (Arc::new(native), Arc::new(state));
                    self.0.insert(opened.0.id(), opened.clone());
                    opened
                });
                // Whoever asked has given up waiting: then the window goes, too.
                if let Err(returned) = reply.send(opened)
                    && let Ok((native, _)) = returned.0
                {
                    self.0.remove(&native.id());
                }
            }
            Request::Close(id) => drop(self.0.remove(&id)),
        }
    }

    fn window_event(&mut self, _: &ActiveEventLoop, id: WindowId, event: WindowEvent) {
        let Some((native, state)) = self.0.get(&id) else { return };
        match event {
            WindowEvent::CloseRequested | WindowEvent::Destroyed => {
                state.closed.store(true, Ordering::Relaxed);
                native.set_visible(false);
                self.0.remove(&id);
            }
            WindowEvent::Resized(size) => {
                state.set_size(size);
                native.request_redraw();
            }
            WindowEvent::RedrawRequested => {
                if let Some(redraw) = &*state.redraw.lock().unwrap_or_else(PoisonError::into_inner) {
                    redraw();
                }
            }
            _ => {}
        }
    }
}
