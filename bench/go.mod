module github.com/dragoman-mcp/dragoman/bench

go 1.26.0

replace github.com/dragoman-mcp/dragoman => ../
