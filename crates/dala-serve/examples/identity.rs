//! `identity HTTP GRPC [TOKENS]`: serves models of no work, to try clients and to measure what the protocols cost.
//!
//! `identity 127.0.0.1:8000 127.0.0.1:8001` until it is told to end.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is what the program is for")]

use std::process::ExitCode;
use std::sync::Arc;

use dala_serve::double::Identity;
use dala_serve::{Options, Server};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let address = |index: usize| arguments.get(index).and_then(|text| text.parse().ok());
    let (Some(http), Some(grpc)) = (address(0), address(1)) else {
        eprintln!("identity HTTP_ADDRESS:PORT GRPC_ADDRESS:PORT [TOKENS]");
        return ExitCode::from(2);
    };
    let options = Options {
        http: Some(http),
        grpc: Some(grpc),
        tokens: arguments.get(2).map(Into::into),
        may_load: true,
        ..Options::default()
    };
    match Server::bind(options, Arc::new(Identity::default())) {
        Ok(server) => {
            println!("http {:?}, grpc {:?}", server.http_address(), server.grpc_address());
            server.stop_on_signals();
            let ended = server.run();
            println!("{ended:?}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
