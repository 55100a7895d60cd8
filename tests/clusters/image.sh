#!/bin/bash
# Builds the image of examples/kubernetes/Dockerfile where no Docker runs: buildah runs each instruction in a chroot. The
# base image, which comes from a registry elsewhere, is made of Debian's packages and a Python of this machine.
#
#   PYTHON=/opt/python-3.12 tests/clusters/image.sh WORK
#
# As root; needs buildah, debootstrap, and a Python 3.12 at the prefix that PYTHON says, built with a shared library.
#
# What was built before in the same folder is not built again. Prints the name of the image.
set -euo pipefail

work=$(realpath -m "$1")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${PYTHON:-$HOME/.pyenv/versions/3.12.1}
[ -x "$python/bin/python3.12" ] || { echo "there is no Python 3.12 at $python: say where by PYTHON" >&2; exit 1; }
base=docker.io/library/python:3.12-slim-bookworm
image=registry.example.com/spending:1
export BUILDAH_ISOLATION=chroot BUILDAH_FORMAT=docker
storage=(--root "$work/storage" --runroot "$work/run")
mkdir -p "$work/wheels"

make_base() {
  local rootfs=$work/rootfs
  rm -rf "$rootfs"
  debootstrap --variant=minbase --include=ca-certificates,libssl3,libffi8,libsqlite3-0,zlib1g,libbz2-1.0,liblzma5,libreadline8,libncursesw6 \
    bookworm "$rootfs" http://deb.debian.org/debian
  cp -a "$python/bin" "$python/lib" "$python/include" "$rootfs/usr/local/"
  find "$rootfs/usr/local" -name __pycache__ -prune -exec rm -rf {} + # of another place
  ln -sf python3.12 "$rootfs/usr/local/bin/python"
  sed -i '1s,.*,#!/usr/local/bin/python,' "$rootfs"/usr/local/bin/pip*
  echo /usr/local/lib >"$rootfs/etc/ld.so.conf.d/local.conf"
  chroot "$rootfs" ldconfig
  local container
  container=$(buildah "${storage[@]}" from scratch)
  buildah "${storage[@]}" add --quiet "$container" "$rootfs" /
  buildah "${storage[@]}" config --env PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin --cmd python3 "$container"
  buildah "${storage[@]}" commit --quiet --rm "$container" "$base"
  rm -rf "$rootfs"
}

# A package index that only this machine knows how to reach, its certificates, and the headrace of this clone
make_settings() {
  rm -f "$work"/wheels/headrace-*.whl
  "$python/bin/python3" -m pip wheel --quiet --no-deps --wheel-dir "$work/wheels" "$root"
  cp -L "${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}" "$work/wheels/ca.pem"
  printf '[global]\ncert = /wheels/ca.pem\nfind-links = /wheels\ndisable-pip-version-check = true\ntimeout = 180\n' >"$work/pip.conf"
}

buildah "${storage[@]}" inspect --type image "$base" >/dev/null 2>&1 || make_base >&2
make_settings >&2
buildah "${storage[@]}" bud --quiet --pull=never --layers --volume "$work/wheels:/wheels:ro" --volume "$work/pip.conf:/etc/pip.conf:ro" \
  --tag "$image" --file "$root/examples/kubernetes/Dockerfile" "$root" >&2
echo "$image"
