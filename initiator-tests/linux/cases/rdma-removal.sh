#: connections of a removed RDMA device end, and a listener hears again when it is back
#: topologies loop
#: targets nvmfd
#: providers verbs
#: programs verbs-selftest
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
