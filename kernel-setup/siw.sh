#!/bin/bash
# siw.sh [--check | --undo] [--root DIR] NETDEV: an RDMA device that speaks iWARP, over TCP, on a
# network interface: for hosts that have iWARP cards, and networks that lose packets.
#
#   siw.sh NETDEV          load modules, make the RDMA device siw_NETDEV, keep both over a reboot,
#                          raise the limit of locked memory; does nothing twice
#   siw.sh --check NETDEV  say what is there and what is missing; status 1 if anything is
#   siw.sh --undo NETDEV   take back what was made; a device made by hand stays
name=siw.sh
. "$(dirname "$0")/common.sh"
arguments "$@"
kind=siw label=siw modules=(siw ib_uverbs rdma_ucm)
. "$(dirname "$0")/software-link.sh"

run
