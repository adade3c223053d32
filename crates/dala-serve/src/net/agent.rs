//! How much to send here, in a line: what the agent check of HAProxy asks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::front::shared::Shared;

/// What is said: `ready up 75%` is three quarters of what this server is usually given. A balancer that was told `drain` sends
/// nothing until it hears `ready`, also to the server that comes after.
pub(crate) fn line(shared: &Shared) -> String {
    if shared.ending.load(Ordering::Acquire) {
        return "drain\n".to_owned();
    }
    if !shared.is_ready() {
        return "down\n".to_owned();
    }
    let free = 1.0 - shared.back.busy().fullness.clamp(0.0, 1.0);
    format!("ready up {:.0}%\n", (free * 100.0).max(1.0))
}

/// Answers each connection with a line, one after the other: only balancers ask, a few times a second.
pub(crate) async fn run(socket: TcpListener, shared: Arc<Shared>) {
    loop {
        match socket.accept().await {
            Ok((mut stream, _)) => {
                let said = line(&shared);
                let write = stream.write_all(said.as_bytes());
                let _written = tokio::time::timeout(Duration::from_secs(1), write).await;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
