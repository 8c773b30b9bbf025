import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// An event of a stream.
public struct StreamEvent: Sendable {
    /// Its name, such as "message" or "gap".
    public let event: String
    /// Its JSON.
    public let data: Data
    /// Hand it to `after` to go on after this event, also after the app was ended.
    public let id: String

    /// Reads the JSON as `Message`, `Redacted`, `Gap`, `Stock` or a type of your own.
    public func decode<T: Decodable>(_ type: T.Type) throws -> T { try JSON.decoder.decode(type, from: data) }
}

/// How a stream is followed.
public struct StreamOptions: Sendable {
    /// The `id` of the last event that was seen before; "": the stream begins where the contract says.
    public var after: String
    /// A stream that is silent for more seconds is opened again. The server sends something every 15.
    public var silence: TimeInterval
    /// Is told that the stream is open.
    public var onOpen: @Sendable () -> Void
    /// Is told why the stream was cut, or could not be opened. It will be opened again.
    public var onCut: @Sendable (Error) -> Void

    public init(
        after: String = "",
        silence: TimeInterval = 40,
        onOpen: @escaping @Sendable () -> Void = {},
        onCut: @escaping @Sendable (Error) -> Void = { _ in }
    ) {
        (self.after, self.silence, self.onOpen, self.onCut) = (after, silence, onOpen, onCut)
    }
}

private let longestPause: TimeInterval = 30

extension Server {
    /// Follows a stream over all its connections, until the loop over it ends or its task is cancelled.
    func stream(_ target: String, _ options: StreamOptions) -> AsyncThrowingStream<StreamEvent, Error> {
        AsyncThrowingStream { events in
            let following = Task {
                do {
                    try await follow(target, options) { events.yield($0) }
                    events.finish()
                } catch is CancellationError {
                    events.finish()
                } catch {
                    events.finish(throwing: error)
                }
            }
            events.onTermination = { _ in following.cancel() }
        }
    }

    private func follow(_ target: String, _ options: StreamOptions, _ emit: (StreamEvent) -> Void) async throws {
        var position = options.after, retry: TimeInterval = 1, vain = 0, renewed = false
        while true {
            try Task.checkCancellation()
            var parser = EventParser(id: position)
            var cut: Error = Disconnected(reason: "the stream ended", mayHaveHappened: false)
            var token = ""
            do {
                token = try await tokens.get()
                for try await piece in try pieces(target, token, position, options) {
                    if vain > 0 || renewed { (vain, renewed) = (0, false) }
                    for raw in parser.push(piece) {
                        if raw.event == "bye" { throw Ended(reason: "the stream ended: \(raw.data)") }
                        emit(StreamEvent(event: raw.event, data: Data(raw.data.utf8), id: raw.id))
                    }
                    position = parser.id
                }
            } catch let error as URLError where error.code != .cancelled {
                let why = error.code == .timedOut ? "was silent for too long" : "was cut: \(error.localizedDescription)"
                cut = Disconnected(reason: "the stream \(why)", mayHaveHappened: false)
            } catch {
                cut = error
            }
            try Task.checkCancellation()
            position = parser.id
            let refused = (cut as? Problem)?.status == 401
            if refused || cut is Ended { await tokens.forget(token) }
            let again = refused && !renewed
            if !again && !passes(cut) { throw cut }
            options.onCut(cut)
            retry = parser.retry ?? retry
            // The server chose its first pause at random. The next ones grow, and are random again.
            let growing = vain == 0 ? retry : min(longestPause, retry * pow(2, TimeInterval(min(vain, 10)))) * .random(in: 0.5...1)
            if again { renewed = true } else { try await Task.sleep(seconds: leastWait(cut) + growing) }
            vain += 1
        }
    }

    /// Opens the stream, and gives what comes, piece by piece.
    private func pieces(_ target: String, _ token: String, _ position: String, _ options: StreamOptions) throws -> AsyncThrowingStream<Data, Error> {
        var request = try self.request("GET", target, token)
        request.timeoutInterval = options.silence
        request.setValue("text/event-stream", forHTTPHeaderField: "Accept")
        if !position.isEmpty { request.setValue(position, forHTTPHeaderField: "Last-Event-ID") }
        return AsyncThrowingStream { pieces in
            let session = URLSession(configuration: configuration, delegate: Receiver(pieces, options.onOpen), delegateQueue: nil)
            let task = session.dataTask(with: request)
            pieces.onTermination = { _ in session.invalidateAndCancel() }
            task.resume()
        }
    }
}

/// Hands on the pieces of one connection, which URLSession calls one after the other.
private final class Receiver: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    private let pieces: AsyncThrowingStream<Data, Error>.Continuation
    private let onOpen: @Sendable () -> Void
    private var refusal: HTTPURLResponse?
    private var body = Data()

    init(_ pieces: AsyncThrowingStream<Data, Error>.Continuation, _ onOpen: @escaping @Sendable () -> Void) {
        (self.pieces, self.onOpen) = (pieces, onOpen)
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        if let http = response as? HTTPURLResponse, http.statusCode != 200 {
            refusal = http
        } else {
            onOpen()
        }
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        if refusal == nil {
            pieces.yield(data)
        } else {
            body.append(data)
        }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: Error?) {
        if let refusal = refusal {
            pieces.finish(throwing: Problem(refusal, body))
        } else {
            pieces.finish(throwing: error)
        }
        session.finishTasksAndInvalidate()
    }
}
