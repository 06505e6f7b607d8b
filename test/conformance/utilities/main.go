// Command utilities stands for programs that the images of the conformance suite have and Debian's busybox
// lacks. It is linked to their names, and has as much of each as the specs use:
//
//	curl [-OPTION...] URL        prints the answer
//	ipcs -m                      lists the segments of shared memory: key and ID
//	nmeter -d0 FORMAT            prints the time of day with milliseconds, once
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// defaultTimeout is how long a request may take, unless an option says so.
const defaultTimeout = 2 * time.Minute

func main() {
	programs := map[string]func(args []string) error{"curl": curl, "ipcs": ipcs, "nmeter": nmeter}
	name := filepath.Base(os.Args[0])
	program, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: not one of the programs\n", name)
		os.Exit(127)
	}
	if err := program(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func curl(args []string) error {
	client := http.Client{Timeout: defaultTimeout}
	address := ""
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case (arg == "--connect-timeout" || arg == "--max-time" || arg == "-m") && i+1 < len(args):
			i++
			seconds, err := strconv.Atoi(args[i])
			if err != nil {
				return fmt.Errorf("%s: %w", arg, err)
			}
			client.Timeout = time.Duration(seconds) * time.Second
		case !strings.HasPrefix(arg, "-"):
			address = arg
		}
	}
	if address == "" {
		return errors.New("no URL is given")
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	answer, err := client.Get(address)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

func ipcs([]string) error {
	file, err := os.Open("/proc/sysvipc/shm")
	if err != nil {
		return err
	}
	defer file.Close()
	fmt.Println("key        shmid")
	lines := bufio.NewScanner(file)
	lines.Scan() // the heads of the columns
	for lines.Scan() {
		if columns := strings.Fields(lines.Text()); len(columns) > 1 {
			fmt.Println(columns[0], columns[1])
		}
	}
	return lines.Err()
}

func nmeter([]string) error {
	_, err := fmt.Println(time.Now().UTC().Format("15:04:05.000"))
	return err
}
