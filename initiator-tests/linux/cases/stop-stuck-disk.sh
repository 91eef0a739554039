#: SIGTERM ends the daemon within 10 s even when its disk answers nothing
#: targets nvmfd
#: providers verbs
#: seconds 90
load dm-mod
brd_load
dmsetup create stuck --table "0 131072 linear /dev/ram3 0"
dmsetup mknodes stuck || true
until_true 5 test -b /dev/mapper/stuck
target_up /dev/mapper/stuck
host_connect --nr-io-queues 2
load_start stuck --rw=randwrite --bs=4k --iodepth=16 --size=32m --time_based --runtime=60
say suspend
dmsetup suspend --noflush stuck
sleep 2
ended=0
target_down || ended=$?
say resume
dmsetup resume stuck
nvme disconnect -n "$NQN" >/dev/null
wait $load_pid || true
until_true 10 dmsetup remove stuck
((ended == 0)) || fail "SIGTERM with a stuck disk: status $ended"
