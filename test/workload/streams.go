package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// echoInput copies stdin to stdout until its end.
func echoInput() error {
	_, err := io.Copy(os.Stdout, os.Stdin)
	return err
}

// reportTerminal prints whether stdin is a terminal, and its size, whenever that changes, until it has
// read a line.
func reportTerminal() error {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	err := printSize()
	if errors.Is(err, unix.ENOTTY) {
		fmt.Println("no terminal")
		return nil
	}
	if err != nil {
		return err
	}
	go func() {
		for range resized {
			_ = printSize() // it did work
		}
	}()
	var line string
	if _, err := fmt.Scanln(&line); err != nil {
		return err
	}
	fmt.Println("read", line)
	return nil
}

func printSize() error {
	size, err := unix.IoctlGetWinsize(int(os.Stdin.Fd()), unix.TIOCGWINSZ)
	if err == nil {
		fmt.Printf("terminal of %d x %d\n", size.Col, size.Row)
	}
	return err
}

// archive has the parts of tar that 'berth cp' needs: 'cf - -C DIR NAME' and 'xmf - -C DIR'.
func archive(args []string) error {
	switch {
	case len(args) == 5 && args[0] == "cf" && args[1] == "-" && args[2] == "-C":
		return pack(args[3], args[4])
	case len(args) == 3 && args[0] == "cf" && args[1] == "-" && filepath.IsAbs(args[2]): // kubectl's
		return pack("/", args[2][1:])
	case len(args) == 4 && strings.TrimPrefix(args[0], "-") == "xmf" && args[1] == "-" && args[2] == "-C":
		return unpack(args[3])
	}
	return fmt.Errorf("tar does not understand %q", args)
}

func pack(dir, name string) error {
	out := tar.NewWriter(os.Stdout)
	err := filepath.WalkDir(filepath.Join(dir, name), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := ""
		if d.Type() == fs.ModeSymlink {
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		if h.Name, err = filepath.Rel(dir, path); err != nil {
			return err
		}
		if err := out.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = out.Write(content)
		return err
	})
	return errors.Join(err, out.Close())
}

func unpack(dir string) error {
	in := tar.NewReader(os.Stdin)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // kubectl does not send folders
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, fs.FileMode(h.Mode))
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, path)
		default:
			var content []byte
			if content, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(path, content, fs.FileMode(h.Mode))
			}
		}
		if err != nil {
			return err
		}
	}
}
