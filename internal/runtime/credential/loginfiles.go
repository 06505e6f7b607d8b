package credential

import (
	"os"
	"path/filepath"
)

// LoginFiles returns the files that may hold logins: below the root directory, and where users of a kubelet
// put them. legacy are those in the old format of docker.
func LoginFiles(root string) (files, legacy []string) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/root"
	}
	for _, dir := range []string{root, "/var/lib/kubelet", filepath.Join(home, ".docker"), "/.docker"} {
		files = append(files, filepath.Join(dir, "config.json"))
	}
	for _, dir := range []string{root, "/var/lib/kubelet", home, "/"} {
		legacy = append(legacy, filepath.Join(dir, ".dockercfg"))
	}
	return files, legacy
}
