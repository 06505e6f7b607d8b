// Package emulator has the command line for the Debian of test/machine/image.sh, which boots in an emulator.
package emulator

import "path/filepath"

// Program is the emulator.
const Program = "qemu-system-x86_64"

// Args returns the arguments for a machine whose disk and kernel are in a folder. What it writes to this disk is lost
// when it ends. The second disk is a file of its own, and kernelArgs are added to the command line of the kernel.
func Args(dir, second, kernelArgs string) []string {
	return []string{
		"-accel", "tcg,thread=multi", "-smp", "2", "-m", "3G", "-display", "none", "-no-reboot",
		"-kernel", filepath.Join(dir, "kernel"), "-initrd", filepath.Join(dir, "initrd"),
		"-append", "root=/dev/vda rw console=ttyS0 systemd.show_status=no quiet " + kernelArgs,
		"-drive", "format=raw,if=virtio,snapshot=on,file=" + filepath.Join(dir, "disk"),
		"-drive", "format=raw,if=virtio,file=" + second,
	}
}
