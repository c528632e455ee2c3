package config

const nonblock = 0 // Windows has no named pipes in folders
