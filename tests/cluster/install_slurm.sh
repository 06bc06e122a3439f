#!/usr/bin/env bash
# Installs Debian's Slurm and munge, for the tests of this folder. Run as root; nothing is started.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
# The tests start their own daemons, in a folder of their own.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' > "$policy"
  chmod 755 "$policy"
fi
apt-get update
apt-get install --yes --no-install-recommends slurm-wlm munge
