#: a disk that grows is larger at the host within a second, and the new part serves
#: targets nvmfd
target_up pagefile:64
host_connect --nr-io-queues 1
is() { [ "$(cat "/sys/block/${DEV##*/}/size")" = $(($1 * 2048)) ]; }
is 64 || fail "the disk is not of 64 MiB"
for mib in 65 128 512; do
    target_tell set namespace "$NQN" 1 size=${mib}MiB
    until_true 1 is $mib || fail "a second after the change the disk has $(blockdev --getsize64 "$DEV") bytes, not $mib MiB"
    say "$mib MiB"
    load_run "grown-$mib" --rw=write --verify=crc32c --verify_fatal=1 --do_verify=1 --bs=64k --iodepth=4 --offset=$((mib - 1))m --size=1m
done
target_refuses set namespace "$NQN" 1 size=64MiB
is 512 || fail "the disk changed though its cut was refused"
expect 0 "$(recoveries)" "error recoveries"
host_disconnect
