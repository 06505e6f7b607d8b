package selinux

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machineWith has these files. Its kernel takes all that can be written to a file.
func machineWith(t *testing.T, files map[string]string) machine {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		at := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return machine{root}
}

func TestWhetherContainersCanBeLabelled(t *testing.T) {
	const (
		enforce = "sys/fs/selinux/enforce"
		config  = "etc/selinux/config"
		own     = "etc/selinux/mcs/contexts/lxc_contexts"
		tools   = "usr/share/containers/selinux/contexts"
		labels  = "# labels\n process = \"u:r:container_t:s0\"\nfile=u:r:container_file_t:s0\n"
	)
	for name, test := range map[string]struct {
		files map[string]string
		says  string // in the way; empty: nothing is
	}{
		"by the policy":         {map[string]string{enforce: "1", config: "SELINUX=enforcing\nSELINUXTYPE=mcs\n", own: labels}, ""},
		"by tools":              {map[string]string{enforce: "0", tools: labels}, ""},
		"no SELinux":            {map[string]string{config: "SELINUXTYPE=mcs\n", own: labels}, ErrDisabled.Error()},
		"no policy":             {map[string]string{enforce: "1"}, "names no labels"},
		"no labels":             {map[string]string{enforce: "1", config: "SELINUXTYPE=mcs\n"}, "names no labels"},
		"none for files":        {map[string]string{enforce: "1", tools: "process = p\n#file = f\n"}, "what label a file"},
		"the kernel knows none": {map[string]string{enforce: "1", tools: labels, "sys/fs/selinux/context/x": ""}, "does not know the label u:r:container_t:s0"},
	} {
		t.Run(name, func(t *testing.T) {
			err := machineWith(t, test.files).canLabel()
			if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v", err)
			}
			if errors.Is(err, ErrDisabled) != (name == "no SELinux") {
				t.Errorf("whether SELinux is on depends on %v", err)
			}
		})
	}
}

func TestALabelIsMadeOfWhatIsAskedForAndWhatIsUsual(t *testing.T) {
	for want, test := range map[string]struct {
		usual string
		asked Label
	}{
		"u:r:container_t:s0":  {"u:r:container_t:s0", Label{}},
		"u:r:mine_t:s0:c1,c2": {"u:r:container_t:s0", Label{Type: "mine_t", Level: "s0:c1,c2"}},
		"a:b:c:d":             {"u:r:container_t:s0-s0:c0.c9", Label{"a", "b", "c", "d"}},
		"u:r:mine_t":          {"u:r:container_t", Label{Type: "mine_t"}},
	} {
		// given a machine on which containers usually have one label
		m := machineWith(t, map[string]string{
			"sys/fs/selinux/context": "", "usr/share/containers/selinux/contexts": "process = \"" + test.usual + "\"\n",
		})
		// when another is asked for, then the kernel is asked whether it knows that
		err := m.check(test.asked)
		if asked, readErr := os.ReadFile(m.at("sys/fs/selinux/context")); err != nil || readErr != nil || string(asked) != want {
			t.Errorf("asked for %s, want %s: %v, %v", asked, want, err, readErr)
		}
	}
	// and a label that the policy does not know is an error
	m := machineWith(t, map[string]string{"sys/fs/selinux/context/x": "", "usr/share/containers/selinux/contexts": "process = u:r:container_t:s0\n"})
	if err := m.check(Label{Type: "lost_t"}); err == nil || !strings.Contains(err.Error(), "does not know the label u:r:lost_t:s0") {
		t.Errorf("got %v", err)
	}
}

func TestFilesHaveTheUserAndTheLevelOfTheirProcess(t *testing.T) {
	for want, test := range map[string]struct {
		usual string
		asked Label
	}{
		"u:object_r:container_file_t:s0:c1,c2": {"u:object_r:container_file_t:s0", Label{Role: "r", Type: "mine_t", Level: "s0:c1,c2"}},
		"me:object_r:container_file_t:s0":      {"u:object_r:container_file_t:s0", Label{User: "me"}},
		"u:object_r:container_file_t":          {"u:object_r:container_file_t", Label{Type: "mine_t"}},
	} {
		m := machineWith(t, map[string]string{"usr/share/containers/selinux/contexts": "file = \"" + test.usual + "\"\n"})
		if got, err := m.fileLabel(test.asked); err != nil || got != want {
			t.Errorf("got %s, want %s: %v", got, want, err)
		}
	}
	if _, err := machineWith(t, nil).fileLabel(Label{}); err == nil {
		t.Error("a label on a machine that has none")
	}
}
