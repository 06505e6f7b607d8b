package kernel

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/utils/cpuset"
)

// onlineCPUs is the file of the kernel with the processors of this machine.
const onlineCPUs = "/sys/devices/system/cpu/online"

// CheckReservedCPUs refuses reservedSystemCPUs that this machine does not have.
func CheckReservedCPUs(reserved string) error { return checkReservedCPUs(reserved, onlineCPUs) }

func checkReservedCPUs(reserved, onlineFile string) error {
	if reserved == "" {
		return nil
	}
	want, err := cpuset.Parse(reserved)
	if err != nil {
		return fmt.Errorf("reservedSystemCPUs: %w", err)
	}
	online, err := readCPUs(onlineFile)
	if err != nil {
		return fmt.Errorf("reservedSystemCPUs: %w", err)
	}
	if !want.IsSubsetOf(online) {
		return fmt.Errorf("reservedSystemCPUs: %s is not part of the processors of this machine, %s", reserved, online)
	}
	return nil
}

// OnlineCPUs returns the processors of this machine.
func OnlineCPUs() (cpuset.CPUSet, error) { return readCPUs(onlineCPUs) }

func readCPUs(file string) (cpuset.CPUSet, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return cpuset.CPUSet{}, fmt.Errorf("find the processors of this machine: %w", err)
	}
	online, err := cpuset.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return cpuset.CPUSet{}, fmt.Errorf("find the processors of this machine: %w", err)
	}
	return online, nil
}
