package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
)

// makeDir makes a directory, and says what came of it.
func makeDir(w http.ResponseWriter, r *http.Request) {
	if err := os.Mkdir(r.FormValue("path"), 0o755); err != nil {
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "made")
}

// eat uses that many MiB of memory, until the end.
func eat(ctx context.Context, amount string) error {
	n, err := strconv.Atoi(amount)
	if err != nil {
		return err
	}
	var eaten [][]byte
	for range n {
		piece := make([]byte, 1<<20)
		for i := range piece { // or the kernel would not give it yet
			piece[i] = 1
		}
		eaten = append(eaten, piece)
	}
	<-ctx.Done()
	fmt.Println("ate", len(eaten), "MiB")
	return nil
}
