package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"syscall"
)

// makeDir makes a directory, and says what came of it.
func makeDir(w http.ResponseWriter, r *http.Request) {
	if err := os.Mkdir(r.FormValue("path"), 0o755); err != nil {
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "made")
}

// serveStat answers with the mode and the owner of a file, and with its target if it is a symbolic
// link.
func serveStat(w http.ResponseWriter, r *http.Request) {
	path := r.FormValue("path")
	info, err := os.Stat(path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		http.Error(w, "the file has no owner", http.StatusInternalServerError)
		return
	}
	to, _ := os.Readlink(path) // empty for files that are no links
	fmt.Fprintf(w, "%o %d:%d %s\n", info.Mode().Perm(), owner.Uid, owner.Gid, to)
}

// eat uses that many MiB of memory, until the end.
func eat(ctx context.Context, amount string) error {
	n, err := strconv.Atoi(amount)
	if err != nil {
		return err
	}
	var eaten [][]byte
	for range n {
		eaten = append(eaten, memory(1))
	}
	<-ctx.Done()
	fmt.Println("ate", len(eaten), "MiB")
	return nil
}
