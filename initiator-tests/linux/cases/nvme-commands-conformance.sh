#: the daemon passes the conformance suite on NVMe namespaces that it sends commands to
#: machines qemu
#: targets nvmfd
#: providers verbs
#: disk nvme
#: programs conformance
#: seconds 500
load nvme
until_true 10 test -c /dev/ng0n4 || fail "the machine has no NVMe namespaces"
NVMFD_DISKS="16:512:/dev/ng0n2 16:4096:/dev/ng0n3 1:512:/dev/ng0n4" NVMFD_PROGRAM=$WORK/bin/nvmfd \
    "$WORK/bin/conformance" "$TARGET_ADDR"
