//! Connections that others cannot read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use dala_serve::{BindError, Options, Server, TlsFiles};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::running::{Running, options};

/// A certificate for `localhost` that only this test trusts.
fn files() -> TlsFiles {
    let data = |name| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    TlsFiles { certificate: data("localhost.pem"), key: data("localhost.key") }
}

fn client(protocol: &str) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(files().certificate).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap()
}

#[test]
fn requests_over_tls() {
    let server = Running::with(Options { tls: Some(files()), ..options() });
    let mut stream = StreamOwned::new(client("http/1.1"), TcpStream::connect(server.http).unwrap());
    stream.write_all(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("{\"live\":true}"), "{answer}");

    let mut stream = StreamOwned::new(client("h2"), TcpStream::connect(server.grpc).unwrap());
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).unwrap();
    assert_eq!(frame[3], 4, "settings are the first that a server of HTTP/2 says");
}

#[test]
fn plain_requests_are_not_answered() {
    let server = Running::with(Options { tls: Some(files()), ..options() });
    let mut client = server.client();
    client.begin("GET", "/v2", &[], 0);
    assert!(client.is_closed());
}

#[test]
fn certificates_that_are_none() {
    let bind = |tls| Server::bind(Options { tls: Some(tls), ..options() }, Arc::<crate::back::Told>::default()).err();
    let swapped = TlsFiles { certificate: files().key, key: files().certificate };
    let missing = TlsFiles { certificate: "/nowhere".into(), ..files() };
    let no_key = TlsFiles { key: "/nowhere".into(), ..files() };
    for wrong in [swapped, missing, no_key] {
        assert!(matches!(bind(wrong), Some(BindError::Tls(_))));
    }
}
