//! Numbers the sources of this crate: machine code is kept under that number.

fn main() {
    dala_build::number_sources();
}
