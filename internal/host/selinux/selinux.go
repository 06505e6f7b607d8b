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

// ErrDisabled says that the kernel labels nothing, so that nothing is missing either.
var ErrDisabled = errors.New("SELinux is not on")

// CanLabel returns nil if containers can be given SELinux labels on this machine, and
// otherwise what is in the way.
//
// A runtime takes the labels that containers have by default out of a file. It labels
// nothing if that file is missing, whatever pods ask for, and starts no container at all
// if the policy that was loaded does not know them: Debian's names some and knows none.
func CanLabel() error { return machine{"/"}.canLabel() }

// Label is what a pod asks for of a label. Parts that are empty are as by default.
type Label struct{ User, Role, Type, Level string }

// Check returns an error if the policy that was loaded does not know the label. A runtime
// would say only that some argument is invalid.
func (l Label) Check() error { return machine{"/"}.check(l) }

// machine is that of the machine with this root directory.
type machine struct{ root string }

func (s machine) canLabel() error {
	if _, err := os.Stat(s.at("sys/fs/selinux/enforce")); err != nil {
		return ErrDisabled
	}
	for _, of := range []string{"process", "file"} {
		label, err := s.usual(of)
		if err == nil {
			err = s.known(label)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s machine) check(l Label) error {
	usual, err := s.usual("process")
	if err != nil {
		return err
	}
	parts := append(strings.SplitN(usual, ":", 4), "", "", "", "")
	for i, asked := range []string{l.User, l.Role, l.Type, l.Level} {
		parts[i] = cmp.Or(asked, parts[i])
	}
	return s.known(strings.TrimRight(strings.Join(parts[:4], ":"), ":"))
}

// usual is the label that a process or file of a container has by default. What came with
// tools for containers is before what came with the policy.
func (s machine) usual(of string) (string, error) {
	path := s.at("usr/share/containers/selinux/contexts")
	text, err := os.ReadFile(path)
	if err != nil {
		var config []byte
		if config, err = os.ReadFile(s.at("etc/selinux/config")); err == nil {
			path = s.at("etc/selinux", setting(config, "SELINUXTYPE"), "contexts/lxc_contexts")
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

// known asks the kernel, which takes only labels that it knows.
func (s machine) known(label string) error {
	if err := os.WriteFile(s.at("sys/fs/selinux/context"), []byte(label), 0); err != nil {
		return fmt.Errorf("the SELinux policy does not know the label %s", label)
	}
	return nil
}

func (s machine) at(path ...string) string { return filepath.Join(s.root, filepath.Join(path...)) }

// setting finds the value of a line of the form name = "value".
func setting(text []byte, name string) string {
	for line := range bytes.Lines(text) {
		key, value, found := strings.Cut(string(line), "=")
		if found && strings.TrimSpace(key) == name {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}
