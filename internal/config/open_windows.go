package config

const nonblock = 0 // named pipes are not opened by a path of a folder here
