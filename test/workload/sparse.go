package main

import (
	"os"
	"strconv"
)

// swell makes files that large without using the disk, and ends with that code.
func swell(size, code string, files []string) (int, error) {
	bytes, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		if err := os.Truncate(file, bytes); err != nil {
			return 0, err
		}
	}
	return strconv.Atoi(code)
}
