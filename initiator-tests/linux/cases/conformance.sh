#: the daemon passes the conformance suite, whose host has no manners, on RDMA devices
#: topologies veth siw
#: targets nvmfd
#: providers verbs
#: programs conformance
#: seconds 400
NVMFD_PROGRAM=$WORK/bin/nvmfd "$WORK/bin/conformance" "$TARGET_ADDR"
