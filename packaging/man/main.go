// Command man writes the manual pages of berth, one for each command, into a folder:
//
//	SOURCE_DATE_EPOCH=$(date +%s) go run -C packaging ./man -version 1.0 -o /tmp/man1
//
// The same sources and the same date make the same pages.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra/doc"

	"berth/internal/cli"
)

func main() {
	version := flag.String("version", "", "version of berth that the pages name")
	folder := flag.String("o", "", "folder for the pages")
	flag.Parse()
	if err := write(*version, *folder); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func write(version, folder string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH must be the time of the release in seconds: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	date := time.Unix(seconds, 0).UTC()
	root := cli.NewRootCommand(version)
	root.DisableAutoGenTag = true // it would name the day of the build
	root.InitDefaultCompletionCmd()
	return doc.GenManTree(root, &doc.GenManHeader{
		Section: "1", Date: &date, Source: "berth " + version, Manual: "berth",
	}, folder)
}
