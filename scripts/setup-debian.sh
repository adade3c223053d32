#!/usr/bin/env bash
# Installs what the build and the tests need on Debian 12, as root. Safe to run again; quick when everything is there.
#
#  1. Software devices: Mesa's lavapipe (Vulkan) and llvmpipe (OpenGL ES) from bookworm-backports. Its Mesa 25 runs the
#     kernels several times faster than bookworm's own.
#  2. LLVM 22 for the engine's CPU runtime (and LLD for its ROCm back end, which is type-checked). The engine's build script looks for a prebuilt bundle in a folder of the
#     user's data directory and downloads it if it is missing; Debian's packages are put in that place instead, so that
#     nothing is downloaded from anywhere but Debian.
#  3. Elixir and Erlang for the Elixir package, and debootstrap, by which scripts/elixir-root gets newer ones.
#  4. Python with virtual environments, for scripts/get-models.
#  5. What windows need on X11, and an X server without a screen to test them on.
#  6. gdb, which says where a process was that died, and faketime, by which tests make a clock jump.
#  7. HAProxy, and what scripts/fleet makes hosts with.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

# The folder's name carries the version of tracel-llvm-bundler: keep it in step with Cargo.lock.
bundle=tracel-llvm-23.1.0-4
prefix=${XDG_DATA_HOME:-$HOME/.local/share}/tracel/$bundle

packages=(build-essential pkg-config vulkan-tools libegl1 libgles2
  llvm-22-dev libpolly-22-dev liblld-22-dev libz3-dev libzstd-dev zlib1g-dev libxml2-dev
  elixir erlang-dev debootstrap python3-venv gdb faketime
  haproxy curl iproute2 nftables ethtool iputils-ping
  xvfb libx11-xcb1 libxcursor1 libxi6 libxrandr2 libxkbcommon-x11-0)
mesa=(mesa-vulkan-drivers libegl-mesa0 libgl1-mesa-dri)

installed() { dpkg-query -W -f='${Status}\n' "$@" 2>/dev/null | grep -c '^install ok installed$'; }
mesa_version() { dpkg-query -W -f='${Version}' mesa-vulkan-drivers 2>/dev/null || echo 0; }

if [ "$(installed "${packages[@]}")" != "${#packages[@]}" ] || dpkg --compare-versions "$(mesa_version)" lt 25; then
  sources=/etc/apt/sources.list.d/debian.sources
  if [ -f "$sources" ] && ! grep -rqs bookworm-backports /etc/apt/sources.list /etc/apt/sources.list.d; then
    # The same mirror and key as for the rest of the system.
    uri=$(awk '/^URIs:/ {print $2; exit}' "$sources")
    key=$(awk '/^Signed-By:/ {print $2; exit}' "$sources")
    printf 'Types: deb\nURIs: %s\nSuites: bookworm-backports\nComponents: main\nSigned-By: %s\n' "$uri" "$key" \
      > /etc/apt/sources.list.d/bookworm-backports.sources
  fi
  apt-get update -qq
  apt-get install -y -qq "${packages[@]}" >/dev/null
  apt-get install -y -qq -t bookworm-backports "${mesa[@]}" >/dev/null
fi

if [ ! -e "$prefix/.tracel-llvm-installed" ]; then
  mkdir -p "$prefix"
  # Links instead of copies; a few of Debian's own links point outside and cannot be linked again.
  cp -rs /usr/lib/llvm-22/. "$prefix"/ 2>/dev/null || true
  rm -f "$prefix/bin/llvm-config"
  # Debian's llvm-config names libz3 by its path, which the bundler would turn into -llibz3.
  printf '%s\n' '#!/bin/sh' '/usr/lib/llvm-22/bin/llvm-config "$@" | sed "s#[^ ]*/libz3\.so#-lz3#g"' \
    > "$prefix/bin/llvm-config"
  chmod +x "$prefix/bin/llvm-config"
  touch "$prefix/.tracel-llvm-installed"
fi

if ! command -v cargo >/dev/null; then
  echo "cargo is missing: install Rust 1.95 or later (https://rustup.rs), with rustfmt and clippy" >&2
  exit 1
fi
vulkaninfo --summary 2>/dev/null | grep -E 'deviceName|driverInfo' || echo "vulkaninfo finds no device" >&2
