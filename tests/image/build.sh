#!/bin/sh
# build.sh FOLDER: build the image of this Dockerfile with buildah, and lay out in FOLDER what the
# tests of this folder look at: inspect.json, layers/ and root/. As root; nothing of it needs a daemon.
# Its base is Debian's own Python 3.11, by debootstrap, for want of a registry of images; base.tar
# stays in FOLDER for the next time.
set -eu
folder=$1
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/../.."
buildah() {
  command buildah --root "$folder/store" --runroot "$folder/run" --storage-driver vfs "$@"
}
rm -rf "$folder/store" "$folder/run" "$folder/context" "$folder/layers" "$folder/root"

if [ ! -e "$folder/base.tar" ]; then
  rm -rf "$folder/base"
  debootstrap --variant=minbase --include=python3,python3-venv bookworm "$folder/base"
  tar -C "$folder/base" --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' \
    -cf "$folder/base.part" .
  mv "$folder/base.part" "$folder/base.tar"
  rm -rf "$folder/base"
fi
base=$(buildah from scratch)
buildah add -q "$base" "$folder/base.tar" /
buildah commit -q --rm "$base" lhb-base

# the working tree, and what may lie about in it and must not get into a layer
mkdir "$folder/context"
git ls-files -z | xargs -0 cp --parents --no-dereference -t "$folder/context"
for planted in deploy/secrets/postgres_password service/lhb.db service/api/lhb.db-wal .git/config \
  clients/typescript/node_modules/x.js service/__pycache__/x.pyc .env tests/key.pem; do
  mkdir -p "$folder/context/$(dirname $planted)"
  echo lhb-planted-secret > "$folder/context/$planted"
done
# pip trusts whom this machine trusts. HEALTHCHECK needs Docker's format: OCI's has none
certificates=/etc/ssl/certs/ca-certificates.crt
buildah build --isolation chroot --format docker --build-arg BASE=localhost/lhb-base \
  --volume "$certificates:$certificates:ro" --tag lhb-checked "$folder/context"
buildah inspect --type image lhb-checked > "$folder/inspect.json"
buildah push -q lhb-checked "dir:$folder/layers"
built=$(buildah from lhb-checked)
cp -a "$(buildah mount "$built")" "$folder/root"
buildah umount "$built" > /dev/null
rm -rf "$folder/store" "$folder/run" "$folder/context"
