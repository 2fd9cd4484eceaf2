//go:build mutant_keep_queue

package framework

const planted = keepQueue
