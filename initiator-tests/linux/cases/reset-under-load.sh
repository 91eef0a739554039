#: controller resets under load lose and corrupt nothing
#: seconds 120
target_up brd:512
host_connect --nr-io-queues 2
load_start reset --rw=randwrite --bs=4k --iodepth=16 --size=48m --rate=,4m --verify=crc32c --verify_fatal=1 --do_verify=1
for ((i = 1; i <= 3; i++)); do
    say "reset $i"
    nvme reset "/dev/$CTRL"
    until_true 20 host_is live || fail "not live after reset $i: $(host_state)"
    sleep 1
done
load_ok
host_disconnect
