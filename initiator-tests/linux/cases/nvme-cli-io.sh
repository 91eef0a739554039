#: nvme-cli's I/O commands do to the blocks what they say, and what is not offered is refused
#: targets nvmfd
#: seconds 120
. "$WORK/guest/nvme-cli.sh"
target_up loop:64
host_connect --nr-io-queues 1
C=/dev/$CTRL
random_file /tmp/pattern 1
head -c 4096 /tmp/pattern >/tmp/page
on_disk() { dd if="$DEV" bs=512 skip="$1" count="$2" iflag=direct status=none; }
same() { cmp <(on_disk "$1" "$2") "$3" || fail "blocks from $1 are not as expected"; }
zero() { on_disk "$1" "$2" | cmp -s -n $(($2 * 512)) - /dev/zero || fail "blocks from $1 are not zero"; }
beyond=131072

ask "[Ss]uccess" write "$DEV" -s 64 -c 7 -z 4096 -d /tmp/page
same 64 8 /tmp/page
ask "[Ss]uccess" write "$DEV" -s 64 -c 7 -z 4096 -d /tmp/page --force-unit-access
ask "[Ss]uccess" read "$DEV" -s 64 -c 7 -z 4096 -d /tmp/back
cmp /tmp/page /tmp/back
ask "[Ss]uccess" compare "$DEV" -s 64 -c 7 -z 4096 -d /tmp/page
dd if=/tmp/pattern of=/tmp/other bs=4096 skip=1 count=1 status=none
deny $COMPARE_FAILURE compare "$DEV" -s 64 -c 7 -z 4096 -d /tmp/other
ask "[Ss]uccess" read "$DEV" -s $((beyond - 8)) -c 7 -z 4096 -d /tmp/back
deny $BEYOND_THE_END read "$DEV" -s $((beyond - 7)) -c 7 -z 4096 -d /tmp/back
deny $BEYOND_THE_END write "$DEV" -s $beyond -c 0 -z 512 -d /tmp/page
ask "[Ss]uccess" verify "$DEV" -s 0 -c 255
deny $BEYOND_THE_END verify "$DEV" -s $beyond -c 0
ask "[Ss]uccess" copy "$DEV" --sdlba=1024 --slbs=64 --blocks=7
same 1024 8 /tmp/page
ask "[Ss]uccess" copy "$DEV" --sdlba=2048 --slbs=68,64 --blocks=3,3
same 2048 4 <(tail -c 2048 /tmp/page)
same 2052 4 <(head -c 2048 /tmp/page)
ask "[Ss]uccess" write-zeroes "$DEV" -s 66 -c 3
same 64 2 <(head -c 1024 /tmp/page)
zero 66 4
same 70 2 <(tail -c 1024 /tmp/page)
ask "[Ss]uccess" write-zeroes "$DEV" -s 1024 -c 7 --deac
zero 1024 8
deny $BEYOND_THE_END write-zeroes "$DEV" -s $beyond -c 0
ask "[Ss]uccess" dsm "$DEV" --ad --slbs=2048,4096 --blocks=8,64
zero 2048 8
ask "[Ss]uccess" flush "$DEV"
deny $INVALID_OPCODE write-uncor "$DEV" -s 0 -c 0
deny $INVALID_OPCODE resv-report "$DEV"
deny $INVALID_OPCODE resv-register "$DEV" --nrkey=1

deny $INVALID_OPCODE create-ns "$C" --nsze=1 --ncap=1 --block-size=0 --flbas=0
deny $INVALID_OPCODE delete-ns "$C" -n 1
deny $INVALID_OPCODE attach-ns "$C" -n 1 -c 1
deny $INVALID_OPCODE format "$DEV" --force --lbaf=0
deny $INVALID_OPCODE sanitize "$C" --sanact=2
deny $INVALID_OPCODE device-self-test "$C" -n 1 -s 1
deny $INVALID_OPCODE fw-commit "$C" -s 1 -a 1
deny $INVALID_OPCODE fw-download "$C" -f /tmp/page
deny $INVALID_OPCODE security-recv "$C" -p 0 -s 0 -t 16 -x 16
deny $INVALID_OPCODE security-send "$C" -p 0 -s 0 -t 16 -f /tmp/page
deny $INVALID_OPCODE dir-receive "$C" -n 1 -D 0 -O 1
deny $INVALID_OPCODE lockdown "$C" -o 0 -p 0 -f 0
deny $INVALID_OPCODE virt-mgmt "$C" -c 1 -r 0 -a 9 -n 0
deny $INVALID_OPCODE get-lba-status "$DEV" -s 0 -m 10 -a 0x10 -l 0
deny $INVALID_OPCODE io-passthru "$DEV" --opcode=0x91 -n 1
same 70 2 <(tail -c 1024 /tmp/page)
host_disconnect
all_right
