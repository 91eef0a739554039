#!/bin/busybox sh
# First process of the QEMU guest, in the first root file system: load what is
# needed to reach the outer machine's root, lay a writable layer over it, and
# go on there with agent.sh. Arguments come on the kernel's command line.
/bin/busybox mkdir -p /proc /sys /dev /outer /layer /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
for module in $(/bin/busybox cat /modules/order); do
    /bin/busybox insmod "/modules/$module" || echo "boot: cannot insert $module"
done
for word in $(/bin/busybox cat /proc/cmdline); do
    case $word in
    harness.work=*) work=${word#*=} ;;
    harness.modules=*) modules=${word#*=} ;;
    esac
done
share="trans=virtio,version=9p2000.L,msize=512000"
/bin/busybox mount -t 9p -o "ro,$share,cache=loose" outer /outer
/bin/busybox mount -t tmpfs -o mode=755 layer /layer
/bin/busybox mkdir /layer/upper /layer/work
/bin/busybox mount -t overlay -o lowerdir=/outer,upperdir=/layer/upper,workdir=/layer/work root /root
/bin/busybox mkdir -p "/root/$work" /root/lib/modules
/bin/busybox mount -t tmpfs -o mode=1777 tmp /root/tmp
/bin/busybox mkdir -p "/root/$work"
/bin/busybox mount -t 9p -o "rw,$share,cache=none" work "/root/$work"
/bin/busybox mount -o bind "/outer/$modules" /root/lib/modules
/bin/busybox umount /dev
/bin/busybox umount /proc
exec /bin/busybox switch_root /root /bin/bash "$work/guest/agent.sh" "$work" /dev/ttyS1
