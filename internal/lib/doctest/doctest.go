// Package doctest keeps documents that tests make from the tables of the code.
package doctest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the document anew")

// docs is the folder of the documents. Tests run in the folder of their package, three levels below the repository.
const docs = "../../../docs"

// Check fails the test if a file of docs/ differs from want. With -update, it writes the file instead.
func Check(t *testing.T, file, want string) {
	t.Helper()
	path := filepath.Join(docs, file)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("docs/%s is not what the tables of the code say: run 'make docs' (%v)", file, err)
	}
}
