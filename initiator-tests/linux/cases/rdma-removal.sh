#: connections of a removed RDMA device end, its listener says so, and the device can go
#: machines qemu
#: topologies loop
#: targets nvmfd
#: providers verbs
#: programs verbs-selftest
# A soft device's removal waits for those who use it to let go. They hear of it only where rdma_cm
# was loaded after ib_uverbs, as it is from modules: the kernel tells the youngest first, and
# ib_uverbs is who waits. With all of it built in, as in User-Mode Linux, no user ever hears.
mkfifo /tmp/said
"$WORK/bin/verbs-selftest" "$TARGET_ADDR" removal >/tmp/said &
selftest=$!
read -r line </tmp/said
expect READY "$line" "what the program says"
rdma link delete rxe0 &
removal=$!
wait $selftest
wait $removal
rdma link add rxe0 type rxe netdev fabric0
rm /tmp/said
target_up ram:64
host_connect --nr-io-queues 1
host_disconnect
