// Command sample-app is the reference app: it follows real flights through event-time windows.
package main

func main() {}
