//! What stands behind the protocols: models and pipelines on a device, and the queue in front of it.
//!
//! A [`House`] is the [`Backend`](crate::Backend) of a server. It knows what is served by which name; each thing that is served is
//! work for the one desk, where requests wait, share runs and are answered.

mod desk;
mod home;
mod house;
mod onnx;
mod picture;
mod repository;
#[cfg(test)]
mod tests;
mod version;
mod work;

pub use house::{House, HouseOptions, Opening};
