//go:build !failpoints

package main

// watchFailpoints does nothing without the tag: then only the points on the wire are reached.
func watchFailpoints(*agent) {}
