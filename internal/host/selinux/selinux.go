// Package selinux finds out which SELinux labels containers can have on this machine.
package selinux

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrDisabled says that the kernel has SELinux off, so that containers need no labels.
var ErrDisabled = errors.New("SELinux is not on")

// CanLabel returns an error that says why containers can't be given SELinux labels on this machine, or nil.
//
// A runtime reads the default labels of containers from a file. It labels
// nothing if that file is missing, whatever pods ask for, and starts no container at all
// if the loaded policy does not know the labels: that of Debian names some and knows none.
func CanLabel() error { return machine{"/"}.canLabel() }

// Label is the SELinux label in the spec of a pod. An empty part has the value of the default label.
type Label struct{ User, Role, Type, Level string }

// Check returns an error if the loaded policy does not know the label. The error of a runtime
// would be "invalid argument".
func (l Label) Check() error { return machine{"/"}.check(l) }

// FileLabel returns the label of the files that a process with this label has, as a runtime labels them:
// user and level are those of the process.
func (l Label) FileLabel() (string, error) { return machine{"/"}.fileLabel(l) }

// machine has its files below root.
type machine struct{ root string }

func (m machine) canLabel() error {
	if _, err := os.Stat(m.at("sys/fs/selinux/enforce")); err != nil {
		return ErrDisabled
	}
	for _, of := range []string{"process", "file"} {
		label, err := m.defaultLabel(of)
		if err == nil {
			err = m.checkLabel(label)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m machine) check(l Label) error {
	label, err := m.defaultLabel("process")
	if err != nil {
		return err
	}
	parts := append(strings.SplitN(label, ":", 4), "", "", "", "")
	for i, asked := range []string{l.User, l.Role, l.Type, l.Level} {
		parts[i] = cmp.Or(asked, parts[i])
	}
	return m.checkLabel(strings.TrimRight(strings.Join(parts[:4], ":"), ":"))
}

func (m machine) fileLabel(l Label) (string, error) {
	label, err := m.defaultLabel("file")
	if err != nil {
		return "", err
	}
	parts := append(strings.SplitN(label, ":", 4), "", "", "", "")
	parts[0], parts[3] = cmp.Or(l.User, parts[0]), cmp.Or(l.Level, parts[3])
	return strings.TrimRight(strings.Join(parts[:4], ":"), ":"), nil
}

// defaultLabel returns the default label of a process or file of a container. The file of container tools takes
// precedence over that of the policy.
func (m machine) defaultLabel(of string) (string, error) {
	path := m.at("usr/share/containers/selinux/contexts")
	text, err := os.ReadFile(path)
	if err != nil {
		var config []byte
		if config, err = os.ReadFile(m.at("etc/selinux/config")); err == nil {
			path = m.at("etc/selinux", setting(config, "SELINUXTYPE"), "contexts/lxc_contexts")
			text, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return "", fmt.Errorf("the SELinux policy names no labels for containers: %w", err)
	}
	label := setting(text, of)
	if label == "" {
		return "", fmt.Errorf("%s does not say what label a %s of a container has", path, of)
	}
	return label, nil
}

// checkLabel asks the kernel whether the loaded policy knows a label.
func (m machine) checkLabel(label string) error {
	if err := os.WriteFile(m.at("sys/fs/selinux/context"), []byte(label), 0); err != nil {
		return fmt.Errorf("the SELinux policy does not know the label %s", label)
	}
	return nil
}

func (m machine) at(path ...string) string { return filepath.Join(m.root, filepath.Join(path...)) }

// setting returns the value of the line name = "value".
func setting(text []byte, name string) string {
	for line := range bytes.Lines(text) {
		key, value, found := strings.Cut(string(line), "=")
		if found && strings.TrimSpace(key) == name {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}
