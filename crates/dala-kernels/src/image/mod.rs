//! Pictures.

pub mod blur;
pub mod box_blur;
pub mod brightness_contrast;
pub mod crop;
pub mod flip;
pub mod generate_gradient;
pub mod grayscale;
pub mod lut;
pub mod overlay_alpha;
pub mod preprocess;
pub mod resize;
pub mod sharpen;
pub mod sobel;
pub mod threshold;
