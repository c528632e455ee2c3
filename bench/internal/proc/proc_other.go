//go:build !linux

package proc

import (
	"errors"
	"time"
)

var errLinux = errors.New("measured on Linux only")

// CPU fails here.
func CPU(int) (time.Duration, error) { return 0, errLinux }

// Resident fails here.
func Resident(int) (int64, error) { return 0, errLinux }

// Descendants fails here.
func Descendants(int) ([]int, error) { return nil, errLinux }

// Busy fails here.
func Busy() (time.Duration, error) { return 0, errLinux }

// Machine knows nothing here.
func Machine() (cpu, kernel string) { return "", "" }
