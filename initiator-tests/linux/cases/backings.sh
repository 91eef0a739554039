#: a file, a file through the page cache, a loop device and a RAM disk serve at once, each with its own data
#: seconds 150
target_up file:64 pagefile:48 loop:32 brd:512
host_connect --nr-io-queues 2
base=${DEV%n*}
until_true 10 test -b "${base}n4" || fail "not all four namespaces came: $(ls "${base}"n*)"
for n in 1 2 3 4; do
    DEV=${base}n$n
    verify_run "space-$n" --bs=16k --iodepth=8 --size=8m
    echo "namespace number $n" | dd of="$DEV" bs=4k conv=sync oflag=direct status=none
done
for n in 1 2 3 4; do
    expect "namespace number $n" "$(dd if="${base}n$n" bs=4k count=1 iflag=direct status=none | head -n 1)" "content of namespace $n"
done
host_disconnect
