// SPDX-License-Identifier: GPL-2.0
/*
 * Makes and checks blocks: see format.h. A check goes through magic, CRC, version and features,
 * then the bounds of each field, then whether the block is the one that the caller looks for.
 */
#include <string.h>

#include <lsmem.h>

#include "format.h"

#define FORMAT_FRAMES_MAX	(1u << LSMEM_ITEM_FRAME_BITS)

/**
 * format_strerror - describe an error for messages
 * @error: result of a check
 *
 * Return: a constant string.
 */
const char *format_strerror(enum format_error error)
{
	switch (error) {
	case FORMAT_OK:
		return "sound";
	case FORMAT_ZERO:
		return "never written";
	case FORMAT_MAGIC:
		return "wrong magic number";
	case FORMAT_CRC:
		return "wrong checksum";
	case FORMAT_OLD:
		return "of a format that this version no longer reads";
	case FORMAT_VERSION:
		return "unknown format version";
	case FORMAT_INCOMPATIBLE:
		return "uses a feature that this version does not know";
	case FORMAT_READ_ONLY:
		return "uses a feature that this version may read but not write";
	case FORMAT_RANGE:
		return "a field is out of range";
	case FORMAT_FOREIGN:
		return "belongs to another store, segment or time";
	case FORMAT_UNFIT:
		return "does not belong to the data of the segment";
	}
	return "unknown error";
}

/**
 * format_is_zero - are all bytes zero?
 * @data: the bytes
 * @length: how many
 *
 * Return: true if they are, or if @length is 0.
 */
bool format_is_zero(const void *data, size_t length)
{
	const unsigned char *byte = data;

	return !length || (!byte[0] && !memcmp(byte, byte + 1, length - 1));
}

/**
 * format_is_blank - can a block be at the place of the digest log on a blank backup?
 * @block: LSMEM_BLOCK bytes
 *
 * Return: true if the block is zero, or the first digest of a store, which lists nothing: a
 * formatting that did not reach the superblocks left it. Any other digest belongs to a store whose
 * superblocks are lost.
 */
bool format_is_blank(const void *block)
{
	const struct lsmem_digest *digest = block;

	return format_is_zero(block, LSMEM_BLOCK) ||
	       (__le64_to_cpu(digest->magic) == LSMEM_DIGEST_MAGIC &&
		__le64_to_cpu(digest->term) == 1 && __le64_to_cpu(digest->sequence) == 1 &&
		!digest->items);
}

/* Compute the CRC of a block as if its CRC field, 4 bytes at @at, were zero. */
static uint32_t format_crc(const void *block, size_t length, size_t at)
{
	static const uint8_t zero[4];
	const uint8_t *byte = block;
	uint32_t crc;

	crc = lsmem_crc32c(~0u, byte, at);
	crc = lsmem_crc32c(crc, zero, sizeof(zero));
	return lsmem_crc32c(crc, byte + at + sizeof(zero), length - at - sizeof(zero));
}

#define FORMAT_CRC_OF(block, bytes) \
	format_crc(block, bytes, offsetof(__typeof__(*(block)), crc))

/* Check what superblocks, headers and footers have in common. */
static enum format_error format_block_check(const void *block, uint64_t magic)
{
	const struct lsmem_segment_footer *head = block;
	uint32_t format = __le32_to_cpu(head->format);

	if (format_is_zero(block, LSMEM_BLOCK))
		return FORMAT_ZERO;
	if (__le64_to_cpu(head->magic) != magic)
		return FORMAT_MAGIC;
	if (__le32_to_cpu(head->crc) != FORMAT_CRC_OF(head, LSMEM_BLOCK))
		return FORMAT_CRC;
	if (format && format < LSMEM_FORMAT)
		return FORMAT_OLD;
	return format == LSMEM_FORMAT ? FORMAT_OK : FORMAT_VERSION;
}

static enum format_error format_features_check(const struct lsmem_features *features)
{
	if (__le32_to_cpu(features->incompat) & ~FORMAT_INCOMPAT)
		return FORMAT_INCOMPATIBLE;
	if (__le32_to_cpu(features->ro_compat) & ~FORMAT_RO_COMPAT)
		return FORMAT_READ_ONLY;
	return FORMAT_OK;
}

/**
 * format_super_seal - set the CRC of a superblock
 * @super: complete except its CRC
 */
void format_super_seal(struct lsmem_super *super)
{
	super->crc = __cpu_to_le32(FORMAT_CRC_OF(super, sizeof(*super)));
}

/**
 * format_code - is this a code that a store can have?
 * @k: data shards
 * @m: parity shards
 * @backups: of the store
 *
 * Return: true: fewer parity shards than data shards, so that a digest counts with @m backups lost, and each shard has a
 * backup of its own.
 */
bool format_code(uint32_t k, uint32_t m, uint32_t backups)
{
	return k >= 2 && m && m < k && k + m <= backups && backups <= LSMEM_BACKUPS;
}

/**
 * format_super_check - check a superblock copy
 * @super: the copy, one block
 * @backup_bytes: size of the backup that it was read from, bytes
 *
 * Return: FORMAT_OK, or what is wrong; not FORMAT_FOREIGN.
 */
enum format_error format_super_check(const struct lsmem_super *super, uint64_t backup_bytes)
{
	uint64_t start = __le64_to_cpu(super->digest_start);
	uint64_t half = __le64_to_cpu(super->digest_bytes);
	uint64_t data = __le64_to_cpu(super->frames_start);
	uint64_t frames = __le64_to_cpu(super->frames);
	uint32_t kind = __le32_to_cpu(super->kind), backups = format_backups(super);
	uint64_t set = format_set_frames(super), capacity = __le64_to_cpu(super->capacity);
	uint32_t code = __le32_to_cpu(super->code);
	bool coded = format_coded(super);
	enum format_error error = format_block_check(super, LSMEM_SUPER_MAGIC);

	if (!error)
		error = format_features_check(&super->features);
	if (error)
		return error;
	if (!super->incarnation || (kind != LSMEM_KIND_OBJECT && kind != LSMEM_KIND_BLOCK))
		return FORMAT_RANGE;
	if (!super->store_bytes || !super->max_handles ||
	    __le64_to_cpu(super->max_handles) > LSMEM_INDEX_END)
		return FORMAT_RANGE;
	if ((capacity != 0) != !!(super->features.incompat & __cpu_to_le32(LSMEM_INCOMPAT_TIER)) ||
	    (capacity && capacity < __le64_to_cpu(super->store_bytes)))
		return FORMAT_RANGE;
	if ((start | half | data) % LSMEM_BLOCK || start < 2 * LSMEM_BLOCK ||
	    start > backup_bytes || half > backup_bytes || data > backup_bytes)
		return FORMAT_RANGE;
	if (backups > LSMEM_BACKUPS || set > FORMAT_FRAMES_MAX || set < frames ||
	    (backups > 1) != !!(super->features.incompat &
				__cpu_to_le32(LSMEM_INCOMPAT_BACKUPS)) ||
	    (backups > LSMEM_BACKUPS_FEW) != !!(super->features.incompat &
						__cpu_to_le32(LSMEM_INCOMPAT_MANY)))
		return FORMAT_RANGE;
	if (coded ? lsmem_code_shard(code) || !format_code(lsmem_code_k(code), lsmem_code_m(code), backups) : code)
		return FORMAT_RANGE;
	/* A full record of a coded store has an item for each frame, and one for each segment. */
	if (!frames || half < format_digest_bytes((coded ? 2 : 1) * backups * set + 1) ||
	    data < start + 2 * half || frames > (backup_bytes - data) / LSMEM_SEGMENT_BYTES)
		return FORMAT_RANGE;
	return FORMAT_OK;
}

/**
 * format_header_seal - set the CRC of the header of a replica
 * @header: complete except its CRC
 */
void format_header_seal(struct lsmem_segment_header *header)
{
	header->crc = __cpu_to_le32(FORMAT_CRC_OF(header, sizeof(*header)));
}

/**
 * format_header_check - check the header of a replica
 * @header: first block of the frame
 * @super: of the backup
 * @segment: id of the segment that should be there
 * @generation: of that segment
 *
 * Return: FORMAT_OK; FORMAT_FOREIGN: a sound header of another store, incarnation or segment; or
 * what else is wrong.
 */
enum format_error format_header_check(const struct lsmem_segment_header *header,
				      const struct lsmem_super *super, uint64_t segment,
				      uint32_t generation)
{
	enum format_error error = format_block_check(header, LSMEM_SEGMENT_MAGIC);

	if (!error)
		error = format_features_check(&header->features);
	if (error)
		return error;
	if (header->key_id)
		return FORMAT_INCOMPATIBLE;
	/* Invariant 18: a replica that was written to another incarnation is never used. */
	if (memcmp(header->uuid, super->uuid, sizeof(header->uuid)) ||
	    header->incarnation != super->incarnation ||
	    __le64_to_cpu(header->segment) != segment ||
	    __le32_to_cpu(header->generation) != generation)
		return FORMAT_FOREIGN;
	return FORMAT_OK;
}

/**
 * format_footer_seal - set the CRC of the footer of a segment
 * @footer: complete except its CRC
 */
void format_footer_seal(struct lsmem_segment_footer *footer)
{
	footer->crc = __cpu_to_le32(FORMAT_CRC_OF(footer, sizeof(*footer)));
}

/**
 * format_footer_check - check the footer of a segment
 * @footer: last block of the frame
 * @super: of the backup
 * @segment: id of the segment that should be there
 * @generation: of that segment
 *
 * Return: FORMAT_OK; FORMAT_FOREIGN: a sound footer of another store or segment; or what else is
 * wrong.
 */
enum format_error format_footer_check(const struct lsmem_segment_footer *footer,
				      const struct lsmem_super *super, uint64_t segment,
				      uint32_t generation)
{
	enum format_error error = format_block_check(footer, LSMEM_FOOTER_MAGIC);

	if (error)
		return error;
	if (memcmp(footer->uuid, super->uuid, sizeof(footer->uuid)) ||
	    __le64_to_cpu(footer->segment) != segment ||
	    __le32_to_cpu(footer->generation) != generation)
		return FORMAT_FOREIGN;
	if (!lsmem_segment_fits(__le32_to_cpu(footer->length), __le32_to_cpu(footer->entries)) ||
	    __le32_to_cpu(footer->length) % LSMEM_ALIGN)
		return FORMAT_RANGE;
	return FORMAT_OK;
}

/**
 * format_indices - how many indices a store has
 * @super: checked
 *
 * Return: one more than the highest index, those that are reserved included.
 */
uint64_t format_indices(const struct lsmem_super *super)
{
	return __le64_to_cpu(super->max_handles) +
	       (__le32_to_cpu(super->kind) == LSMEM_KIND_OBJECT ? LSMEM_RESERVED : 0);
}

/**
 * format_listing_check - check what a directory, or another host, says of one entry
 * @listing: unchecked
 * @length: bytes of log data that the segment has
 * @indices: of the store: format_indices()
 * @end: where the entry before it ends, or 0; if the entry is valid: out: where it ends
 *
 * It must be such as lsmem_entry_listing() makes, begin at @end or later, and be within the log data.
 *
 * Return: FORMAT_OK or FORMAT_RANGE.
 */
enum format_error format_listing_check(const struct lsmem_directory_entry *listing, uint32_t length,
				       uint64_t indices, uint32_t *end)
{
	uint64_t meta = __le64_to_cpu(listing->meta);
	uint32_t type = LSMEM_LISTING_GET(meta, TYPE);
	uint32_t bytes = LSMEM_LISTING_GET(meta, LENGTH);
	uint32_t home = LSMEM_LISTING_GET(meta, HOME) * LSMEM_ALIGN;

	if (bytes ? type != LSMEM_TYPE_OBJECT : type != LSMEM_TYPE_TOMBSTONE)
		return FORMAT_RANGE;
	if (bytes > LSMEM_OBJECT_MAX || home < *end || lsmem_entry_start(home) != home ||
	    home > length || lsmem_entry_size(bytes) > length - home)
		return FORMAT_RANGE;
	if (lsmem_handle_index(__le64_to_cpu(listing->key)) >= indices ||
	    __le64_to_cpu(listing->version) >> LSMEM_ENTRY_VERSION_BITS)
		return FORMAT_RANGE;
	*end = home + lsmem_entry_size(bytes);
	return FORMAT_OK;
}

/**
 * format_directory_check - check the directory of a segment
 * @directory: as many entries as @footer says
 * @footer: checked
 * @indices: of the store: format_indices()
 *
 * The entries must be in the order of their home offsets, and each as format_listing_check() wants it.
 *
 * Return: FORMAT_OK, FORMAT_CRC or FORMAT_RANGE.
 */
enum format_error format_directory_check(const struct lsmem_directory_entry *directory,
					 const struct lsmem_segment_footer *footer,
					 uint64_t indices)
{
	uint32_t entries = __le32_to_cpu(footer->entries);
	uint32_t length = __le32_to_cpu(footer->length);
	uint32_t end = 0, i;

	if (lsmem_crc32c(~0u, directory, (size_t)entries * sizeof(*directory)) !=
	    __le32_to_cpu(footer->directory_crc))
		return FORMAT_CRC;
	for (i = 0; i < entries; i++)
		if (format_listing_check(&directory[i], length, indices, &end))
			return FORMAT_RANGE;
	return FORMAT_OK;
}

/**
 * format_end_bytes - how much of the end of a closed segment's frame has to be read?
 * @length: bytes of log data, as the digest lists them
 *
 * It is computed before the footer is read: the directory cannot reach into the data, and cannot have more entries than
 * fit into the data at the smallest size.
 *
 * Return: bytes at the end of the frame that hold footer and directory, and perhaps more; whole blocks.
 */
uint32_t format_end_bytes(uint32_t length)
{
	uint32_t most = LSMEM_BLOCK + lsmem_directory_bytes(length / LSMEM_LONG_BYTES);
	uint32_t room = length < LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK ?
			LSMEM_SEGMENT_BYTES - LSMEM_BLOCK - lsmem_block_round(length) : 0;

	if (most > room)
		most = room;
	return most > LSMEM_BLOCK ? most : LSMEM_BLOCK;
}

/**
 * format_end_check - check footer and directory of a closed segment
 * @end: where its frame ends: the format_end_bytes() before are there
 * @super: of the backup, or another one of the store
 * @segment: id of the segment
 * @generation: of the segment
 * @length: bytes of log data, as the digest lists them
 * @indices: of the store: format_indices()
 * @directory: out: as many entries as the footer says, which is the last block
 *
 * Return: FORMAT_OK, or what is wrong with one of the two.
 */
enum format_error format_end_check(const uint8_t *end, const struct lsmem_super *super, uint64_t segment,
				   uint32_t generation, uint32_t length, uint64_t indices,
				   const struct lsmem_directory_entry **directory)
{
	const struct lsmem_segment_footer *footer = (const void *)(end - LSMEM_BLOCK);
	enum format_error error = format_footer_check(footer, super, segment, generation);
	uint32_t bytes;

	if (error)
		return error;
	if (__le32_to_cpu(footer->length) != length)
		return FORMAT_FOREIGN;
	bytes = lsmem_directory_bytes(__le32_to_cpu(footer->entries));
	/* There are more entries than the data can have. */
	if (bytes > format_end_bytes(length) - LSMEM_BLOCK)
		return FORMAT_RANGE;
	*directory = (const void *)((const uint8_t *)footer - bytes);
	return format_directory_check(*directory, footer, indices);
}

/**
 * format_digest_bytes - compute the room that a digest record takes
 * @items: how many it has
 *
 * Return: bytes, whole blocks.
 */
uint64_t format_digest_bytes(uint32_t items)
{
	uint64_t bytes = sizeof(struct lsmem_digest) +
			 (uint64_t)items * sizeof(struct lsmem_digest_item);

	return (bytes + LSMEM_BLOCK - 1) & ~(uint64_t)(LSMEM_BLOCK - 1);
}

/**
 * format_half_bytes - choose the size of a half of the digest log
 * @frames: of all backups
 *
 * The size is that of several full records, so that most records can be deltas. It is less than
 * what the kernel leaves for the digest log on a backup of twice the store's size.
 *
 * Return: bytes, whole blocks.
 */
uint64_t format_half_bytes(uint64_t frames)
{
	return 4 * format_digest_bytes(frames) + (256u << 10);
}

/**
 * format_domains - count the failure domains of some backups
 * @domain: failure domain of each backup, for all bits of @mask
 * @mask: the backups
 *
 * Return: the number of different domains.
 */
uint32_t format_domains(const uint32_t *domain, uint32_t mask)
{
	uint32_t nr = 0, b, other;

	for (b = 0; mask >> b; b++) {
		for (other = b + 1; mask >> other; other++)
			if (mask >> other & 1u && domain[other] == domain[b])
				break;
		nr += (mask >> b & 1u) && !(mask >> other);
	}
	return nr;
}

/* Add up the frames of each failure domain. Return: the number of domains. */
static uint32_t format_domain_frames(const uint64_t *frames, const uint32_t *domain, uint32_t nr,
				     uint64_t in_domain[LSMEM_BACKUPS])
{
	uint32_t first[LSMEM_BACKUPS], domains = 0, b, i;

	for (b = 0; b < nr; b++) {
		for (i = 0; i < domains && domain[first[i]] != domain[b]; i++)
			;
		if (i == domains) {
			first[domains] = b;
			in_domain[domains++] = 0;
		}
		in_domain[i] += frames[b];
	}
	return domains;
}

/* Are there frames for @segments segments? A domain holds at most one replica of each. */
static bool format_segments_fit(const uint64_t *in_domain, uint32_t domains, uint32_t replicas,
				uint64_t segments)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < domains; i++)
		sum += in_domain[i] < segments ? in_domain[i] : segments;
	return sum >= segments * replicas;
}

/**
 * format_segments_of - count the segments that there are frames for
 * @frames: of each backup
 * @domain: failure domain of each backup; no two replicas of a segment are in the same one
 * @nr: number of backups, at most LSMEM_BACKUPS
 * @replicas: of each segment, at least 1
 *
 * A number of segments fits if the sum of min(frames of a domain, segments) over all domains is
 * enough for all replicas. This is sufficient, too: filling one domain after the other, and going
 * on with the first segment after the last one, puts no segment into a domain twice (McNaughton's
 * wrap-around rule).
 *
 * Return: the largest number that fits.
 */
uint64_t format_segments_of(const uint64_t *frames, const uint32_t *domain, uint32_t nr,
			    uint32_t replicas)
{
	uint64_t in_domain[LSMEM_BACKUPS], low = 0, high = 0, middle;
	uint32_t domains = format_domain_frames(frames, domain, nr, in_domain), b;

	for (b = 0; b < nr; b++)
		high += frames[b];
	high /= replicas;
	while (low < high) {
		middle = high - (high - low) / 2;
		if (format_segments_fit(in_domain, domains, replicas, middle))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static size_t format_digest_length(const struct lsmem_digest *digest)
{
	return sizeof(*digest) + (size_t)__le32_to_cpu(digest->items) *
				 sizeof(struct lsmem_digest_item);
}

/**
 * format_digest_seal - set the CRC of a digest record
 * @digest: complete except its CRC
 */
void format_digest_seal(struct lsmem_digest *digest)
{
	digest->crc = __cpu_to_le32(FORMAT_CRC_OF(digest, format_digest_length(digest)));
}

/**
 * format_digest_check - check a digest record
 * @digest: all of it, or as much as @room has
 * @super: of the backup
 * @room: bytes left in its half
 *
 * Return: FORMAT_OK, or what is wrong.
 */
enum format_error format_digest_check(const struct lsmem_digest *digest,
				      const struct lsmem_super *super, uint64_t room)
{
	uint32_t kind = __le32_to_cpu(digest->kind);

	if (room < LSMEM_BLOCK)
		return FORMAT_RANGE;
	if (__le64_to_cpu(digest->magic) != LSMEM_DIGEST_MAGIC)
		return format_is_zero(digest, sizeof(*digest)) ? FORMAT_ZERO : FORMAT_MAGIC;
	if (memcmp(digest->uuid, super->uuid, sizeof(digest->uuid)))
		return FORMAT_FOREIGN;
	if ((kind != LSMEM_DIGEST_FULL && kind != LSMEM_DIGEST_DELTA) ||
	    format_digest_bytes(__le32_to_cpu(digest->items)) > room)
		return FORMAT_RANGE;
	if (__le32_to_cpu(digest->crc) != FORMAT_CRC_OF(digest, format_digest_length(digest)))
		return FORMAT_CRC;
	if (!digest->sequence || !digest->term || __le32_to_cpu(digest->era) > LSMEM_ERA_MAX ||
	    __le32_to_cpu(digest->generation_ceiling) > LSMEM_GENERATION_MAX)
		return FORMAT_RANGE;
	return FORMAT_OK;
}

/**
 * format_walk_look - can this be the next entry?
 * @walk: begun
 * @entry: header that was read at @walk->at
 *
 * Nothing of the header may be trusted yet. If it can be an entry, all of it lies within the log
 * data, and so the caller may read its payload to compute the CRC.
 *
 * Return: FORMAT_OK: format_walk_pass() is to decide; FORMAT_CRC: it is no header; FORMAT_FOREIGN:
 * it is of another place; FORMAT_RANGE: the entry would reach beyond @walk->end.
 */
enum format_error format_walk_look(const struct format_walk *walk, const struct lsmem_entry *entry)
{
	if (!lsmem_entry_sane(entry))
		return FORMAT_CRC;
	/* The salt is of the segment, the home block of the place in it. */
	if (lsmem_entry_home(entry) != walk->at / LSMEM_BLOCK)
		return FORMAT_FOREIGN;
	if (walk->at > walk->end || lsmem_entry_bytes(entry) > walk->end - walk->at)
		return FORMAT_RANGE;
	return FORMAT_OK;
}

/**
 * format_walk_pass - check the CRC of an entry, and step over the entry
 * @walk: begun; unchanged on an error
 * @entry: header that format_walk_look() has accepted
 * @pcrc: CRC, seed ~0, of the payload that lsmem_entry_covers(); ~0 if there is none
 *
 * Return: FORMAT_OK; FORMAT_CRC: this is no entry of the segment; FORMAT_INCOMPATIBLE: its type is
 * not known.
 */
enum format_error format_walk_pass(struct format_walk *walk, const struct lsmem_entry *entry,
				   uint32_t pcrc)
{
	uint32_t type = lsmem_entry_type(entry);

	if (__le32_to_cpu(entry->crc) != lsmem_entry_crc(entry, pcrc, walk->salt))
		return FORMAT_CRC;
	if (type > LSMEM_TYPE_GROUP && !(type & LSMEM_TYPE_SKIPPABLE))
		return FORMAT_INCOMPATIBLE;
	walk->at = lsmem_entry_start(walk->at + lsmem_entry_bytes(entry));
	return FORMAT_OK;
}

/**
 * format_walk_step - check an entry, and step over it
 * @walk: begun; unchanged on an error
 * @entry: at @walk->at of the log data, which are in memory up to @walk->end, or at least as far as
 *	the header says, if format_walk_look() has accepted it
 *
 * Return: FORMAT_OK; or what format_walk_look() or format_walk_pass() says.
 */
enum format_error format_walk_step(struct format_walk *walk, const struct lsmem_entry *entry)
{
	enum format_error error = format_walk_look(walk, entry);
	uint32_t pcrc = ~0u;

	if (error)
		return error;
	if (lsmem_entry_covers(entry))
		pcrc = lsmem_crc32c(pcrc, format_payload(entry), lsmem_entry_length(entry));
	return format_walk_pass(walk, entry, pcrc);
}

/**
 * format_verify_begin - begin to check a segment
 * @verify: out
 * @uuid: of the store
 * @segment: id of the segment
 * @generation: of the segment
 * @length: bytes of log data that the digest lists
 */
void format_verify_begin(struct format_verify *verify, const uint8_t *uuid, uint64_t segment,
			 uint32_t generation, uint32_t length)
{
	*verify = (struct format_verify) {
		.walk = {
			.salt = lsmem_segment_salt(uuid, segment, generation),
			.end = length,
		},
		.entries_crc = ~0u,
		.directory_crc = ~0u,
	};
}

/**
 * format_verify_data - check the entries that have arrived
 * @verify: begun
 * @data: the segment's log data
 * @have: bytes of it that have arrived, at least as many as in the call before
 *
 * An entry that has not arrived completely is left for the next call.
 *
 * Return: FORMAT_OK, or what is wrong with the first bad entry.
 */
enum format_error format_verify_data(struct format_verify *verify, const uint8_t *data,
				     uint32_t have)
{
	while (verify->walk.at < verify->walk.end) {
		uint32_t at = verify->walk.at;
		const struct lsmem_entry *entry = (const void *)(data + at);
		struct lsmem_directory_entry listing;
		enum format_error error;

		if (have < at || have - at < LSMEM_LONG_BYTES)
			return FORMAT_OK;
		error = format_walk_look(&verify->walk, entry);
		if (error)
			return error;
		if (have - at < lsmem_entry_bytes(entry))
			return FORMAT_OK;
		error = format_walk_step(&verify->walk, entry);
		if (error)
			return error;
		verify->entries_crc = lsmem_crc32c(verify->entries_crc, &entry->crc,
						   sizeof(entry->crc));
		if (!format_is_listed(entry))
			continue;
		listing = lsmem_entry_listing(entry, at);
		verify->directory_crc = lsmem_crc32c(verify->directory_crc, &listing,
						     sizeof(listing));
		verify->entries++;
	}
	return FORMAT_OK;
}

/**
 * format_verify_length - check that the entries reach the length that the digest lists
 * @verify: format_verify_data() has had all data
 *
 * Return: FORMAT_OK, or FORMAT_RANGE: they end earlier.
 */
enum format_error format_verify_length(const struct format_verify *verify)
{
	return verify->walk.at < verify->walk.end ? FORMAT_RANGE : FORMAT_OK;
}

/**
 * format_footer_make - make the footer of a segment
 * @footer: zeroed by the caller; out, sealed
 * @uuid: of the store
 * @segment: id of the segment
 * @generation: of the segment
 * @verify: format_verify_length() returned FORMAT_OK, or all entries were counted otherwise
 */
void format_footer_make(struct lsmem_segment_footer *footer, const uint8_t *uuid, uint64_t segment,
			uint32_t generation, const struct format_verify *verify)
{
	footer->magic = __cpu_to_le64(LSMEM_FOOTER_MAGIC);
	footer->format = __cpu_to_le32(LSMEM_FORMAT);
	memcpy(footer->uuid, uuid, sizeof(footer->uuid));
	footer->segment = __cpu_to_le64(segment);
	footer->generation = __cpu_to_le32(generation);
	footer->length = __cpu_to_le32(verify->walk.end);
	footer->entries = __cpu_to_le32(verify->entries);
	footer->entries_crc = __cpu_to_le32(verify->entries_crc);
	footer->directory_crc = __cpu_to_le32(verify->directory_crc);
	format_footer_seal(footer);
}

/**
 * format_verify_closed - check directory and footer of a closed segment against its entries
 * @verify: format_verify_length() returned FORMAT_OK
 * @frame: all of the replica
 * @super: of the backup
 * @segment: id of the segment
 * @generation: of the segment
 *
 * The directory must be sound and list exactly the entries that were checked, in their order. It
 * does if the CRC of these entries and the CRC of the directory are that of the footer.
 *
 * Return: FORMAT_OK, or what is wrong.
 */
enum format_error format_verify_closed(const struct format_verify *verify, const uint8_t *frame,
				       const struct lsmem_super *super, uint64_t segment,
				       uint32_t generation)
{
	const struct lsmem_segment_footer *footer =
		(const void *)(frame + LSMEM_SEGMENT_BYTES - LSMEM_BLOCK);
	const uint8_t *directory = (const uint8_t *)footer;
	enum format_error error = format_footer_check(footer, super, segment, generation);

	if (error)
		return error;
	if (__le32_to_cpu(footer->length) != verify->walk.end ||
	    __le32_to_cpu(footer->entries) != verify->entries)
		return FORMAT_FOREIGN;
	if (__le32_to_cpu(footer->entries_crc) != verify->entries_crc ||
	    __le32_to_cpu(footer->directory_crc) != verify->directory_crc)
		return FORMAT_CRC;
	directory -= lsmem_directory_bytes(verify->entries);
	return format_directory_check((const void *)directory, footer,
				      format_indices(super));
}
