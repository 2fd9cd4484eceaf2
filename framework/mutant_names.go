package framework

// The bugs that can be planted, each by the build tag of its name.
const (
	outputsAfterEnd  = "mutant_outputs_after_end"  // outputs are handed over after the end of their transaction
	keepOverlay      = "mutant_keep_overlay"       // the overlay outlives an abort
	movedOffsetsOnly = "mutant_moved_offsets_only" // an offset that has not moved is left out
	trustNo          = "mutant_trust_no"           // "not committed" is believed
	trustCallbacks   = "mutant_trust_callbacks"    // ownership is the sum of callbacks
	keepQueue        = "mutant_keep_queue"         // the queue stays when an empty abort has taken the client back
	clocksForgotten  = "mutant_clocks_forgotten"   // the meta topic is not read
	offsetByOne      = "mutant_offset_by_one"      // offsets are one too low
)
