//! `overhead [REQUESTS] [CONNECTIONS]`: what a request costs the server, in processor time, when the model does nothing.
//!
//! The server is another process, so that what its clients cost is not counted. Each row: requests of one kind, sent one after
//! the other over each of some connections.
#![expect(clippy::print_stdout, reason = "it is what the program is for")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "it ends where it cannot measure")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use dala_serve::double::Identity;
use dala_serve::wire::messages::{InferInputTensor, ModelInferRequest};
use dala_serve::{Options, Server};
use prost::Message;

const ANY: &str = "127.0.0.1:0";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "serve") {
        return serve();
    }
    let number = |index: usize, otherwise| arguments.get(index).map_or(otherwise, |text| text.parse().unwrap());
    let (requests, connections): (usize, usize) = (number(0, 40_000), number(1, 8));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let addresses: Vec<SocketAddr> = line.split_whitespace().map(|address| address.parse().unwrap()).collect();
    let [http, grpc] = addresses[..] else { panic!("{line}") };
    println!("{requests} requests over {connections} connections");
    for (floats, label) in [(4, "16 B"), (150_528, "602 KB")] {
        let requests = if floats > 4 { requests / 20 } else { requests };
        if floats == 4 {
            measure("HTTP, JSON", label, child.id(), requests, || {
                over_http(http, &json(floats), requests, connections)
            });
        }
        let request = binary(floats);
        measure("HTTP, binary", label, child.id(), requests, || over_http(http, &request, requests, connections));
        measure("gRPC", label, child.id(), requests, || over_grpc(grpc, floats, requests, connections));
    }
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// Serves until its input ends.
fn serve() {
    let options = Options { http: ANY.parse().ok(), grpc: ANY.parse().ok(), ..Options::default() };
    let server = Server::bind(options, Arc::new(Identity::default())).unwrap();
    println!("{} {}", server.http_address().unwrap(), server.grpc_address().unwrap());
    let stopper = server.stopper();
    std::thread::spawn(move || {
        let _end = std::io::stdin().read_to_end(&mut Vec::new());
        stopper.stop();
    });
    server.run();
}

fn measure(kind: &str, label: &str, process: u32, requests: usize, load: impl FnOnce()) {
    let (before, began) = (processor_seconds(process), Instant::now());
    load();
    let (took, used) = (began.elapsed().as_secs_f64(), processor_seconds(process) - before);
    let each = used / requests as f64 * 1e6;
    println!(
        "{kind:<13} {label:>7}  {each:6.1} µs of the processor a request, {:7.0} requests/s",
        requests as f64 / took
    );
}

/// What a process took of processors so far, of its own and in the system for it.
fn processor_seconds(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = [fields[11], fields[12]].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

fn head(length: usize, more: &str) -> String {
    format!("POST /v2/models/identity/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{more}\r\n")
}

fn json(floats: usize) -> Vec<u8> {
    let data = vec!["0.5"; floats].join(",");
    let rows = floats / 4;
    let body = format!(r#"{{"inputs":[{{"name":"input","datatype":"FP32","shape":[{rows},4],"data":[{data}]}}]}}"#);
    (head(body.len(), "") + &body).into_bytes()
}

fn binary(floats: usize) -> Vec<u8> {
    let (rows, size) = (floats / 4, floats * 4);
    let text = format!(
        r#"{{"parameters":{{"binary_data_output":true}},"inputs":[{{"name":"input","datatype":"FP32","shape":[{rows},4],"parameters":{{"binary_data_size":{size}}}}}]}}"#
    );
    let more = format!("Inference-Header-Content-Length: {}\r\n", text.len());
    [head(text.len() + size, &more).as_bytes(), text.as_bytes(), &vec![0; size]].concat()
}

fn over_http(address: SocketAddr, request: &[u8], requests: usize, connections: usize) {
    std::thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut buffer = vec![0; 1 << 20];
                for _ in 0..requests / connections {
                    stream.write_all(request).unwrap();
                    read_answer(&mut stream, &mut buffer);
                }
            });
        }
    });
}

fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let (mut filled, mut wanted) = (0, usize::MAX);
    while filled < wanted {
        let read = stream.read(&mut buffer[filled..]).unwrap();
        assert!(read > 0, "the server closed the connection");
        filled += read;
        if wanted == usize::MAX {
            let text = String::from_utf8_lossy(&buffer[..filled.min(1000)]);
            if let Some(end) = text.find("\r\n\r\n") {
                assert!(text.starts_with("HTTP/1.1 200"), "{text}");
                let length = text.split("\r\ncontent-length: ").nth(1).unwrap().split('\r').next().unwrap();
                wanted = end + 4 + length.parse::<usize>().unwrap();
            }
        }
    }
}

fn over_grpc(address: SocketAddr, floats: usize, requests: usize, connections: usize) {
    let input = InferInputTensor {
        name: "input".to_owned(),
        datatype: "FP32".to_owned(),
        shape: vec![floats as i64 / 4, 4],
        ..InferInputTensor::default()
    };
    let message = ModelInferRequest {
        model_name: "identity".to_owned(),
        inputs: vec![input],
        raw_input_contents: vec![vec![0; floats * 4].into()],
        ..ModelInferRequest::default()
    }
    .encode_to_vec();
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(message.len() as u32);
    frame.put_slice(&message);
    let frame = frame.freeze();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..connections {
            tasks.push(tokio::spawn(calls(address, frame.clone(), requests / connections)));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
}

async fn calls(address: SocketAddr, frame: Bytes, requests: usize) {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (client, connection) = h2::client::Builder::new()
        .initial_window_size(4 << 20)
        .initial_connection_window_size(4 << 20)
        .handshake::<_, Bytes>(stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    for _ in 0..requests {
        let request = hyper::Request::post(format!("http://{address}/inference.GRPCInferenceService/ModelInfer"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let (response, mut send) = client.send_request(request, false).unwrap();
        send.send_data(frame.clone(), true).unwrap();
        let mut body = response.await.unwrap().into_body();
        while let Some(part) = body.data().await {
            let part = part.unwrap();
            body.flow_control().release_capacity(part.len()).unwrap();
        }
        let trailers = body.trailers().await.unwrap().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
        client = client.ready().await.unwrap();
    }
}
