//go:build !linux

package proc

import (
	"errors"
	"time"
)

var errLinux = errors.New("CPU time and memory are measured on Linux only")

// CPU always returns an error on this system.
func CPU(int) (time.Duration, error) { return 0, errLinux }

// Resident always returns an error on this system.
func Resident(int) (all, own int64, err error) { return 0, 0, errLinux }

// Descendants always returns an error on this system.
func Descendants(int) ([]int, error) { return nil, errLinux }

// Busy always returns an error on this system.
func Busy() (time.Duration, error) { return 0, errLinux }

// Machine returns two empty strings on this system.
func Machine() (cpu, kernel string) { return "", "" }
