//! Connections that others cannot read.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::TlsFiles;

/// What greets clients, from the files of a certificate and its key. `protocol` is what is spoken inside.
pub(crate) fn acceptor(files: &TlsFiles, protocol: &str) -> Result<TlsAcceptor, String> {
    let certificate = files.certificate.display();
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| format!("{certificate}: {error}"))?;
    if chain.is_empty() {
        return Err(format!("{certificate}: no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| format!("{}: {error}", files.key.display()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| format!("{certificate}: {error}"))?;
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
