//! Where compiled kernels are kept, so that the next process need not compile them again.
//!
//! The engine keeps what it makes for Vulkan; drivers keep what they make of that in caches of their own. Nothing is kept for
//! the CPU device.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use cubecl::config::cache::CacheConfig;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};

/// What the user chose, before the first device was opened.
static CHOSEN: Mutex<Option<Option<PathBuf>>> = Mutex::new(None);
/// Where kernels are kept, once that is settled.
static SETTLED: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Chooses the folder in which compiled kernels are kept, or none. Says whether it was in time: the first device that is
/// opened settles it.
///
/// Without a choice it is what the environment variable `DALA_CACHE` says, a folder or `off`, or else a folder of the user's
/// cache directory.
pub fn keep_kernels_in(folder: Option<&Path>) -> bool {
    let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    if SETTLED.get().is_some() {
        return false;
    }
    *chosen = Some(folder.map(Path::to_owned));
    true
}

/// The folder in which compiled kernels are kept; none if they are not, or if no device was opened yet.
pub fn kernel_folder() -> Option<&'static Path> {
    SETTLED.get().and_then(|folder| folder.as_deref())
}

/// Settles where kernels are kept. Called before the engine is first used, which reads its settings once.
pub(super) fn settle() {
    let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    SETTLED.get_or_init(|| {
        let folder = match chosen.clone() {
            Some(folder) => folder,
            None => match std::env::var_os("DALA_CACHE") {
                Some(off) if off.is_empty() || off == "off" => None,
                Some(folder) => Some(PathBuf::from(folder)),
                None => default_folder(),
            },
        }?;
        // The engine would keep nothing and say nothing.
        std::fs::create_dir_all(&folder).ok()?;
        folder.to_str()?;
        let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
        config.compilation.cache = true;
        config.environment.name = "kernels".to_owned();
        config.environment.path = CacheConfig::Directory(folder.clone());
        CubeClRuntimeConfig::try_set(config).then_some(folder)
    });
}

fn default_folder() -> Option<PathBuf> {
    let path = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let caches = if cfg!(windows) {
        path("LOCALAPPDATA")
    } else if cfg!(target_vendor = "apple") {
        path("HOME").map(|home| home.join("Library/Caches"))
    } else {
        path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")))
    };
    caches.map(|folder| folder.join("dala-compute"))
}
