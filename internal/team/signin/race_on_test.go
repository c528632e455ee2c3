//go:build race

package signin

const raced = true
