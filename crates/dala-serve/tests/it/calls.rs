//! gRPC over bare HTTP/2: messages framed by hand.

use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use hyper::{HeaderMap, Request};
use prost::Message;

/// What a call came to.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) status: i32,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Called {
    pub(crate) fn message<M: Message + Default>(&self) -> M {
        assert_eq!(self.status, 0, "{self:?}");
        assert_eq!(self.body[0], 0, "not compressed");
        assert_eq!(u32::from_be_bytes(self.body[1..5].try_into().unwrap()) as usize, self.body.len() - 5);
        M::decode(&self.body[5..]).unwrap()
    }

    pub(crate) fn is_refused(&self, status: i32, code: &str) {
        assert_eq!((self.status, self.headers.get("dala-code").unwrap().to_str().unwrap()), (status, code), "{self:?}");
    }
}

/// A message with what stands before it.
pub(crate) fn frame(message: &impl Message) -> Bytes {
    framed(0, &message.encode_to_vec())
}

pub(crate) fn framed(flag: u8, message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(flag);
    frame.put_u32(message.len() as u32);
    frame.put_slice(message);
    frame.freeze()
}

/// Calls a method of the inference service.
pub(crate) fn call(address: SocketAddr, method: &str, message: &impl Message) -> Called {
    raw(address, &format!("/inference.GRPCInferenceService/{method}"), &[], frame(message))
}

/// Sends bytes to a path.
pub(crate) fn raw(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: Bytes) -> Called {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(send(address, path, headers, body))
}

pub(crate) async fn send(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: Bytes) -> Called {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let mut request = Request::post(format!("http://{address}{path}"));
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/grpc").header("te", "trailers");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (response, mut stream) = client.send_request(request.body(()).unwrap(), false).unwrap();
    // A server that refuses does not have to read all of it.
    let _sent = stream.send_data(body, true);
    let (head, mut body) = response.await.unwrap().into_parts();
    let mut data = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part.unwrap();
        body.flow_control().release_capacity(part.len()).unwrap();
        data.extend_from_slice(&part);
    }
    let trailers = body.trailers().await.unwrap_or_default().unwrap_or_default();
    let status = trailers.get("grpc-status").or(head.headers.get("grpc-status")).unwrap();
    let status = status.to_str().unwrap().parse().unwrap();
    Called { status, headers: head.headers, trailers, body: data.freeze() }
}
