#: the verbs provider keeps the rules of the RDMA seam, both ends in one process
#: topologies veth loop siw
#: targets nvmfd
#: providers verbs
#: programs verbs-selftest
#: seconds 240
"$WORK/bin/verbs-selftest" "$TARGET_ADDR"
