#: connections of a removed RDMA device end, and a listener hears again when it is back
#: machines qemu
#: topologies loop
#: targets nvmfd
#: providers verbs
#: programs verbs-selftest
# soft-RoCE waits in `rdma link delete` for its users to let go. They hear of it only where rdma_cm
# was loaded after ib_uverbs, as it is from modules: the kernel tells the youngest first, and there
# ib_uverbs does the waiting. With all of it built in, as in User-Mode Linux, no user ever hears.
mkfifo /tmp/said
"$WORK/bin/verbs-selftest" "$TARGET_ADDR" removal >/tmp/said &
selftest=$!
while read -r line; do
    case $line in
    READY) rdma link delete rxe0 ;;
    GONE) rdma link add rxe0 type rxe netdev fabric0 ;;
    esac
done </tmp/said
rm /tmp/said
wait $selftest
